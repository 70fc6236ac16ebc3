"""Rewards of parts: worked by hand, and never better collected than solved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.types import Verdict
from burnish.rewards.parts import RewardParts

REWARD = RewardParts(process={"located": 0.2, "verified": 0.3}, format={"is_json": 0.1}, cost={"calls": 0.25})
SHARES = st.floats(0, 1)
WEIGHTS = st.floats(0.001, 1)


def verdict(score: float, **parts: float) -> Verdict:
    return Verdict.scored(score, parts)


def test_a_reward_without_parts_is_the_score() -> None:
    assert RewardParts().total(verdict(0.3, located=1.0)) == 0.3


def test_a_solved_reply_worked_by_hand() -> None:
    reply = verdict(1.0, located=0.5, verified=1.0, is_json=1.0, calls=0.4)
    assert REWARD.total(reply) == pytest.approx(1 + 0.2 * 0.5 + 0.3 + 0.1 - 0.25 * 0.4)


def test_a_reply_below_the_gate_is_paid_no_process_part() -> None:
    reply = verdict(0.9, located=0.5, verified=1.0, is_json=1.0, calls=0.4)
    assert REWARD.total(reply) == pytest.approx(0.9 + 0.1 - 0.25 * 0.4)
    lower = REWARD.model_copy(update={"gate": 0.9})
    assert lower.total(reply) == pytest.approx(0.9 + 0.4 + 0.1 - 0.1)


def test_the_outcome_may_be_a_part() -> None:
    reward = RewardParts(outcome="tests", process={"located": 0.5})
    assert reward.total(verdict(0.2, tests=1.0, located=1.0)) == 1.5


def test_points_are_a_reward_on_their_own_scale() -> None:
    assert RewardParts(outcome="points").total(Verdict.of_points(730, highest=1000)) == 730


def test_how_much_of_its_process_a_reply_has_is_weighed_and_does_not_ask_for_the_outcome() -> None:
    assert REWARD.process_share(verdict(0.0, located=1.0, verified=0.5)) == pytest.approx((0.2 + 0.15) / 0.5)


@st.composite
def rewards(draw: st.DrawFn) -> RewardParts:
    """Any reward that a recipe may have."""

    def shared(names: list[str], most: float) -> dict[str, float]:
        weights = {name: draw(WEIGHTS) for name in names}
        whole = max(1.0, sum(weights.values()) / most * 1.000001)
        return {name: weight / whole for name, weight in weights.items()}

    others = shared(["format", "cost"], 0.5)
    return RewardParts(
        process=shared(["one", "two"], 0.5), format={"format": others["format"]}, cost={"cost": others["cost"]},
        gate=draw(st.floats(0.01, 1)),
    )  # fmt: skip


@st.composite
def replies(draw: st.DrawFn, outcome: float) -> Verdict:
    return verdict(outcome, **{name: draw(SHARES) for name in ("one", "two", "format", "cost")})


@given(rewards(), replies(0.0), replies(1.0))
def test_a_solution_beats_a_failure_whatever_else_they_have(
    reward: RewardParts, failure: Verdict, solution: Verdict
) -> None:
    assert reward.total(solution) - reward.total(failure) >= 0.5 - 1e-5


@given(rewards(), st.data(), SHARES)
def test_an_unsolved_reply_is_worth_the_same_with_and_without_process_parts(
    reward: RewardParts, data: st.DataObject, share: float
) -> None:
    reply = data.draw(replies(share * reward.gate * 0.999))
    without = verdict(reply.score or 0.0, **{name: reply.parts[name] for name in ("format", "cost")})
    assert reward.total(reply) == pytest.approx(reward.total(without))


@given(rewards(), st.data(), SHARES, SHARES)
def test_a_better_outcome_is_worth_more_where_all_else_is_equal(
    reward: RewardParts, data: st.DataObject, one: float, other: float
) -> None:
    parts = data.draw(replies(0.0)).parts
    low, high = (reward.total(verdict(outcome, **parts)) for outcome in sorted((one, other)))
    assert low <= high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"process": {"a": 0.3, "b": 0.3}}, "process: the weights come to 0.6, and more than 0.5"),
        ({"format": {"a": 0.3}, "cost": {"b": 0.3}}, "format and cost: the weights come to 0.6"),
        ({"process": {"a": 0.0}}, "process: weights are above 0; got a"),
        ({"cost": {"a": -0.1}}, "cost: weights are above 0; got a"),
        ({"process": {"a": 0.1}, "format": {"a": 0.1}}, "'a' would count twice"),
        ({"process": {"score": 0.1}}, "'score' would count twice"),
        ({"gate": 0.5}, "gate is of process parts, and there are none"),
        ({"outcome": "points", "process": {"a": 0.1}}, "points are on a scale of their own"),
        ({"proces": {"a": 0.1}}, "did you mean 'process'"),
    ],
)
def test_what_would_pay_for_the_wrong_thing_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(RewardParts, options, "reward")


@pytest.mark.parametrize("value", [-0.1, 1.5, 700.0, float("nan")])
def test_a_part_outside_its_range_is_never_a_reward(value: float) -> None:
    with pytest.raises(ConfigError, match="parts of a reward lie in"):
        REWARD.total(verdict(1.0, located=value))


def test_an_outcome_that_is_not_there_is_never_a_silent_zero() -> None:
    with pytest.raises(ConfigError, match=r"reward\.outcome is 'points', and a verdict has no such part, only a score"):
        RewardParts(outcome="points").total(Verdict.scored(1.0))


def test_a_part_that_not_even_a_solution_has_is_told_with_those_there_are() -> None:
    reward = RewardParts(process={"locatd": 0.2}, cost={"calls": 0.1})
    tried, solved = verdict(0.0), verdict(1.0, located=1.0, calls=0.0)
    reward.check_names([tried, verdict(0.5, located=1.0)])  # a failure need not show all parts
    with pytest.raises(ConfigError, match="reward names 'locatd', and verdicts have: calls, located, score"):
        reward.check_names([tried, solved])
    RewardParts(process={"located": 0.2}).check_names([tried, solved])
