"""The stage graph: who may enter, when, and what is refused before anything runs."""

from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.rollout.phases import Rules, check_graph, first_standings, graph_lines, moves, rules_of
from burnish.rollout.standing import Seen, Standing


def entry(name: str, **options: Any) -> TaskEntry:
    return TaskEntry.model_validate({"domain": name, **options})


def after(*names: str, reward: float = 0.6, over: int = 4, at_step: int = 0) -> dict[str, Any]:
    return {"after": list(names), "when_reward": reward, "over": over, "at_step": at_step}


def standing(*means: float, phase: str = "active", variance: float = 0.1) -> Standing:
    found = Standing(phase=phase)  # pyright: ignore[reportArgumentType]  a word of the table below
    for mean in means:
        seen = Seen(domain="d", mean=mean, variance=variance, trained=True, num_replies=4)
        found = found.after(seen, window=8, block=4)
    return found


def moved(rules: dict[str, Rules], step: int = 5, **standings: Standing) -> dict[str, str]:
    return {name: to for name, (to, _) in moves(rules, standings, step, {}).items()}


def test_a_domain_enters_when_those_before_it_have_reached_their_reward() -> None:
    rules = rules_of([entry("a"), entry("b", enters=after("a"))])
    assert [one.phase for one in first_standings(rules).values()] == ["active", "waiting"]
    waiting = Standing()
    assert moved(rules, a=standing(0.0, 0.5, 0.6, 0.7, 0.6), b=waiting) == {"b": "active"}
    assert moved(rules, a=standing(1.0, 0.5, 0.6, 0.7, 0.59), b=waiting) == {}
    assert moved(rules, a=standing(1.0, 1.0, 1.0), b=waiting) == {}


def test_all_that_an_entry_test_says_must_hold() -> None:
    rules = rules_of([entry("a"), entry("b"), entry("c", enters=after("a", "b", at_step=6))])
    good, bad = standing(*[1.0] * 4), standing(*[0.5] * 4)
    assert moved(rules, 6, a=good, b=good, c=Standing()) == {"c": "active"}
    assert moved(rules, 5, a=good, b=good, c=Standing()) == {}
    assert moved(rules, 6, a=good, b=bad, c=Standing()) == {}


def test_a_solved_domain_counts_less_until_it_slips() -> None:
    rules = rules_of([entry("a", solved={"above": 0.9, "over": 2}), entry("b")])
    assert moved(rules, a=standing(0.9, 0.9), b=Standing(phase="active")) == {"a": "solved"}
    assert moved(rules, a=standing(0.9, 0.8), b=Standing(phase="active")) == {}
    assert moved(rules, a=standing(0.9, 0.8, phase="solved"), b=Standing(phase="active")) == {"a": "active"}
    assert moved(rules, a=standing(0.8, phase="solved"), b=Standing(phase="active")) == {}


def test_a_domain_without_signal_counts_less_until_it_has_some() -> None:
    rules = rules_of([entry("a", silent={"over": 2}), entry("b")])
    other = Standing(phase="active")
    assert moved(rules, a=standing(0.0, 0.0, variance=0.0), b=other) == {"a": "silent"}
    assert moved(rules, a=standing(0.1, 0.1, phase="silent"), b=other) == {"a": "active"}


def test_what_is_solved_is_not_called_silent() -> None:
    rules = rules_of([entry("a", solved={"above": 0.9, "over": 2}, silent={"over": 2}), entry("b")])
    assert moved(rules, a=standing(1.0, 1.0, variance=0.0), b=Standing(phase="active")) == {"a": "solved"}


def test_what_has_left_stays_away_and_the_last_domain_does_not_leave() -> None:
    rules = rules_of([entry("a", solved={"above": 0.9, "over": 2, "weight": 0}), entry("b")])
    gone = standing(0.0, 0.0, phase="solved")
    assert moved(rules, a=gone, b=Standing(phase="active")) == {}
    alone = rules_of([entry("a", solved={"above": 0.9, "over": 2, "weight": 0}), entry("b", enters=after("a"))])
    assert moved(alone, a=standing(0.95, 0.95), b=Standing()) == {}
    ready = standing(0.95, 0.95, 0.95, 0.95)
    assert moved(alone, a=ready, b=Standing()) == {"b": "active"}  # and a leaves at the next look
    assert moved(alone, a=ready, b=Standing(phase="active")) == {"a": "solved"}
    assert moves(alone, {"a": ready, "b": Standing(phase="active")}, 5, {"b": 0.0}) == {}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry("a"), entry("b", enters=after("c"))], "'b' enters after 'c'.*there are: a, b"),
        ([entry("x"), entry("a", enters=after("b")), entry("b", enters=after("a"))], "circle.*'a' after 'b'"),
        ([entry("x"), entry("a", enters=after("a"))], "circle"),
        ([entry("a"), entry("b", enters={"at_step": 10})], "'b' can never enter: enters.at_step is 10"),
        (
            [entry("a", solved={"above": 0.5, "weight": 0}), entry("b", enters=after("a"))],
            "'b' can never enter: 'a' leaves when its reward is 0.5, below the when_reward of 0.6",
        ),
        ([entry("a", enters={"at_step": 1})], "no domain trains at step 0"),
    ],
)  # fmt: skip
def test_a_graph_that_cannot_work_is_refused(entries: list[TaskEntry], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_graph(rules_of(entries), num_steps=10)


def test_entries_of_one_name_have_one_rule_and_add_their_weights() -> None:
    two = [entry("a", group="g", weight=2), entry("b", group="g", weight=3)]
    assert rules_of(two)["g"].weight == 5
    with pytest.raises(ConfigError, match="reported under 'g' enter or leave by different rules"):
        rules_of([two[0], entry("b", group="g", silent={})])


@pytest.mark.parametrize("enters", [{"after": ["a"]}, {"when_reward": 0.5}])
def test_an_entry_test_without_its_other_half_is_refused(enters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="set both, or neither"):
        entry("b", enters=enters)


def test_the_graph_is_told_in_the_order_in_which_domains_can_enter() -> None:
    rules = rules_of([entry("b", enters=after("a")), entry("a", solved={"above": 0.9, "weight": 0})])
    assert graph_lines(rules) == [
        "a: trains from the start; solved at 0.9 over 32 groups: leaves",
        "b: enters when a reach 0.6 over 4 groups",
    ]
