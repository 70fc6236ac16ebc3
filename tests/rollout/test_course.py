"""What groups and gates have shown, folded into shares."""

from collections.abc import Sequence
from typing import Any

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.rollout.corrections import CorrectionsConfig
from burnish.rollout.course import Change, MixtureConfig, Plan, State, advance, begin, gated
from burnish.rollout.phases import rules_of
from burnish.rollout.standing import Seen


def plan_of(*entries: dict[str, Any], mixture: dict[str, Any] | None = None, **options: Any) -> Plan:
    made = [TaskEntry.model_validate({"domain": "arithmetic", **entry}) for entry in entries]
    return Plan(rules=rules_of(made), mixture=validate(MixtureConfig, mixture or {}, "mixture"), **options)


def saw(domain: str, *means: float, variance: float = 0.1, **options: Any) -> list[Seen]:
    return [Seen(domain=domain, mean=mean, variance=variance, trained=True, num_replies=4, **options) for mean in means]


def folded(plan: Plan, steps: Sequence[Sequence[Seen]]) -> tuple[State, list[Change]]:
    state, first = begin(plan)
    changes = [first]
    for step, groups in enumerate(steps, start=1):
        state, change = advance(plan, state, step, groups)
        changes += [change] if change else []
    return state, changes


def test_a_domain_that_enters_takes_its_share_from_the_others() -> None:
    enters = {"after": ["a"], "when_reward": 0.5, "over": 2}
    plan = plan_of({"group": "a"}, {"group": "b", "enters": enters, "weight": 3})
    state, changes = folded(plan, [saw("a", 0.2), saw("a", 0.6), saw("a", 0.7)])
    assert [dict(change.shares) for change in changes] == [{"a": 1.0, "b": 0.0}, {"a": 0.25, "b": 0.75}]
    assert changes[1].why == ["b is active: a has mean reward 0.650 over 2 groups"]
    assert state.standings["b"].phase == "active"


def test_measured_shares_change_at_their_steps_and_only_then() -> None:
    plan = plan_of({"group": "a"}, {"group": "b"}, mixture={"kind": "signal", "every": 2, "over": 4, "least": 0.1})
    steps = [[*saw("a", 0.5), *saw("b", 0.0, variance=0.0)]] * 4
    _, changes = folded(plan, steps)
    signals = [(3 / 4, 1 / 4), (5 / 6, 1 / 6)]
    assert [change.shares["a"] for change in changes[1:]] == pytest.approx([a / (a + b) for a, b in signals])


def test_a_domain_without_signal_keeps_the_least_share() -> None:
    plan = plan_of({"group": "a"}, {"group": "b"}, mixture={"kind": "signal", "every": 1, "over": 50, "least": 0.4})
    state, _ = folded(plan, [[*saw("a", 0.5), *saw("b", 0.0, variance=0.0)]] * 40)
    assert state.shares == pytest.approx({"a": 0.8, "b": 0.2})


def test_protection_raises_what_has_fallen_below_its_best() -> None:
    mixture = {"kind": "protect", "every": 4, "over": 4, "strength": 4.0, "least": 0.0}
    plan = plan_of({"group": "a"}, {"group": "b"}, mixture=mixture)
    steps = [[*saw("a", 0.75), *saw("b", 0.5)]] * 4 + [[*saw("a", 0.25), *saw("b", 0.5)]] * 4
    state, _ = folded(plan, steps)
    assert state.standings["a"].slip(4) == 0.5
    assert state.shares == {"a": 0.75, "b": 0.25}


def test_corrections_favour_places_and_say_what_the_last_ones_did() -> None:
    plan = plan_of({"group": "a"}, corrections=CorrectionsConfig(every=1, least_failures=2))
    bad = saw("a", 0.0, places=("x",), faults={"total": 4})
    good = saw("a", 1.0, 1.0, places=("y",))
    _, changes = folded(plan, [[*bad, *good], [*saw("a", 1.0, places=("x",)), *good]])
    assert changes[1].targets == {"a": {"x": 3.0}}
    assert changes[2].targets == {}
    (found,) = changes[2].measured
    assert (found["rate"], found["rate_after"]) == (5 / 6, 1 / 6)


def guarded() -> tuple[Plan, State, State]:
    plan = plan_of({"group": "a"}, {"group": "b", "enters": {"at_step": 2}}, is_guarded=True)
    state, _ = folded(plan, [saw("a", 0.9)])
    promoted, change = gated(plan, state, begin(plan)[0], "promote", [])
    assert change is None
    now, _ = advance(plan, promoted, 2, saw("a", 0.9))
    now, _ = advance(plan, now, 3, [*saw("a", 0.1), *saw("b", 0.9)])
    return plan, promoted, now


def test_a_roll_back_gives_the_state_of_the_promoted_checkpoint_and_lowers_the_newcomer() -> None:
    plan, promoted, now = guarded()
    back, change = gated(plan, now, promoted, "roll_back", ["a"])
    assert back.standings == promoted.standings
    assert back.factors == {"a": 1.5, "b": 0.25}
    assert change is not None
    assert change.why == ["b: share times 0.25", "a: share times 1.5"]
    assert change.shares == {"a": 1.0, "b": 0.0}  # b is not there yet
    again, change = advance(plan, back, 4, saw("a", 0.9))
    assert change is not None
    assert again.shares == pytest.approx({"a": 1.5 / 1.75, "b": 0.25 / 1.75})


def test_a_gate_that_holds_changes_nothing_and_its_stretch_goes_on() -> None:
    plan, promoted, now = guarded()
    assert gated(plan, now, promoted, "hold", []) == (now, None)


def test_a_promotion_clears_those_who_trained() -> None:
    plan, promoted, now = guarded()
    passed, _ = gated(plan, now, promoted, "promote", [])
    assert passed.passed == pytest.approx({"a": 1 + 2 / 3, "b": 1 / 3})
    assert passed.trained == {}


def test_without_anything_that_could_change_them_shares_are_still() -> None:
    assert plan_of({"group": "a"}, {"group": "b"}).is_still
    for plan in [
        plan_of({"group": "a"}, mixture={"kind": "temperature"}),
        plan_of({"group": "a"}, corrections=CorrectionsConfig()),
        plan_of({"group": "a", "silent": {}}),
        plan_of({"group": "a"}, mixture={"solved": {"above": 0.9}}, is_guarded=True),
    ]:
        assert not plan.is_still


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 3.0}, "temperature is read by kind 'temperature', and kind is 'fixed'"),
        ({"kind": "signal", "strength": 3.0}, "strength is read by kind 'protect'"),
        ({"kind": "protect", "measure": "spread"}, "measure is read by kind 'signal'"),
        ({"kind": "temperature", "every": 3}, "every is read by kind 'signal' and 'protect'"),
    ],
)
def test_options_that_no_kind_reads_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(MixtureConfig, options, "stage 'rl'")
