"""Where sampling is aimed: terms against numbers worked by hand, and draws that follow the weights."""

from collections import Counter
from dataclasses import replace

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.types import Message, Task, Verdict
from burnish.domains import open_domain
from burnish.rollout.aim import Aim, AimConfig, Past, Shown, rarity, shown, split
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Mixture, Source
from tests.stages.stored import trajectory

SURPRISED = 0.5
"""Of each sampled token of `trajectory`."""


def task(question: str = "1+1=", source: str = "", tags: tuple[str, ...] = ()) -> Task:
    return Task(
        id="d/train/1/0", domain="d", messages=(Message(role="user", content=question),), truth={}, source=source,
        tags=tags,
    )  # fmt: skip


def replies(*scores: float, **parts: float) -> Group:
    members = [
        replace(trajectory("1+1=", "2", score, member=n), verdict=Verdict.scored(score, parts))
        for n, score in enumerate(scores)
    ]
    return Group("0/0", "d", tuple(members))


def aim_after(*groups: Group, of: Task | None = None, **options: object) -> Aim:
    config = validate(AimConfig, options, "aim")
    aim = Aim(config, 2)
    aim.learn(one for group in groups if (one := shown(group, of or task(), config)) is not None)
    return aim


@pytest.mark.parametrize(
    ("succeeded", "num", "group_size", "expected"),
    [
        (0, 0, 2, 1 / 3),  # Beta(1, 1): E p^2 = 1/3, twice
        (1, 2, 2, 2 / 5),  # Beta(2, 2): E p^2 = 2·3 / 4·5
        (0, 8, 2, 1 - 9 * 10 / (10 * 11) - 2 / (10 * 11)),  # Beta(1, 9)
        (8, 8, 2, 1 - 9 * 10 / (10 * 11) - 2 / (10 * 11)),
        (0, 0, 1, 1 / 3),  # at least two are looked at
    ],
)
def test_split_is_the_chance_that_a_group_scores_differently(
    succeeded: float, num: float, group_size: int, expected: float
) -> None:
    assert split(succeeded, num, group_size) == pytest.approx(expected)


def test_what_is_split_is_worth_more_than_what_is_known_to_fail_and_that_more_than_what_is_solved() -> None:
    weights = [aim_after(replies(*scores)).weight("d", task()) for scores in ([1, 0] * 4, [0] * 8, [1] * 8)]
    assert weights == sorted(weights, reverse=True) and len(set(weights)) == 3


def test_terms_of_a_task_are_those_of_its_replies() -> None:
    aim = aim_after(replies(0.0, 0.5, 1.0, loud=0.0), risk_parts={"loud": 0.5})
    terms = aim.terms("d", task())
    assert terms["low"] == pytest.approx(1 - 2.5 / 5)
    assert terms["entropy"] == pytest.approx(1.0)  # the highest there is
    assert terms["risk"] == 0.0 and terms["rare"] == 0.0  # a part that says that nothing risky was done is no fault
    risky = aim_after(replies(0.0, 1.0, loud=0.5), risk_parts={"loud": 0.5})
    assert risky.terms("d", task())["risk"] == 1.0


def test_a_weight_is_the_mean_of_the_terms_over_a_floor() -> None:
    aim = aim_after(replies(1.0, 0.0), split=3.0, low=1.0, entropy=0.0, rare=0.0, uniform=0.2)
    assert aim.weight("d", task()) == pytest.approx(0.2 + 0.8 * (3 * (2 / 5) + 1 / 2) / 4)


def test_a_fault_that_few_failing_replies_show_is_rare() -> None:
    domain = Past(num_failed=10, faults={"often": 9, "seldom": 1})
    assert rarity(Past(faults={"often": 2}), domain) == pytest.approx(0.1)
    assert rarity(Past(faults={"often": 2, "seldom": 1}), domain) == pytest.approx(0.9)
    assert rarity(Past(), domain) == 0.0


def test_an_episode_that_a_limit_ended_failed_by_that() -> None:
    cut = replace(trajectory("1+1=", "2", 0.0), ended_by="steps")
    done = replace(cut, ended_by="done")
    config = AimConfig()
    assert [shown(Group("0/0", "d", (one,)), task(), config) for one in (cut, done)] == [
        Shown(domain="d", prompt=task().prompt_hash[:16], families=(), num=1, succeeded=0.0, surprise=SURPRISED,
              faults=faults, num_failed=1)
        for faults in ({"ended by steps": 1}, {})
    ]  # fmt: skip


def test_a_task_is_known_by_its_own_prompt_before_its_families() -> None:
    aim = aim_after(replies(0.0, 0.0), of=task("1+1=", source="sums"))
    aim.learn([Shown(domain="d", prompt="other", families=("sums", "easy"), num=4, succeeded=4.0, surprise=0.0)])
    assert aim.past("d", task("1+1=", source="sums")).succeeded == 0.0
    assert aim.past("d", task("5+5=", source="sums")).succeeded == 4.0
    assert aim.past("d", task("5+5=", tags=("easy", "unseen"))).num == 4
    assert aim.past("d", task("5+5=")).num == 0
    assert aim.past("other domain", task("1+1=", source="sums")).num == 0


def test_newer_groups_count_more() -> None:
    old, new = replies(0.0, 0.0), replies(1.0, 1.0)
    assert aim_after(old, new).terms("d", task())["low"] < aim_after(new, old).terms("d", task())["low"]


def test_what_a_group_has_shown_is_read_back_as_it_was_written() -> None:
    one = shown(replies(0.0, 1.0, right=0.0), task("1+1=", source="sums", tags=("t",)), AimConfig())
    assert one is not None and Shown.from_json(one.to_json()) == one
    assert shown(Group("0/0", "d", (trajectory("1+1=", "2", None),)), task(), AimConfig()) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"risk": 1.0}, "risk does nothing without risk_parts"),
        ({"risk_parts": {"loud": 0.5}, "risk": 0.0}, "risk_parts are read by risk, and risk is 0"),
        ({"split": 0.0, "low": 0.0, "entropy": 0.0, "rare": 0.0}, "all terms weigh 0"),
        ({"uniform": 0.0}, "greater than or equal to 0.01"),
    ],
)
def test_options_that_aim_at_nothing_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(AimConfig, options, "aim")


def arithmetic() -> Source:
    entry = TaskEntry(domain="arithmetic", options={"largest": 1})
    return Source(entry=entry, domain=open_domain(entry.domain, entry.options))


def test_tasks_are_drawn_as_often_as_they_weigh_from_the_draw_on_that_they_are_weighed_for() -> None:
    mixture = Mixture([arithmetic()], seed=1, exclude=frozenset())
    mixture.aim(lambda number: lambda name, task: 0.25 if number >= 400 and "1+1" in str(task.messages) else 1.0)
    asked = [mixture.draw(number).task.messages[0].content for number in range(2000)]
    before, after = Counter(asked[:400]), Counter(asked[400:])
    assert 0.18 < before["1+1="] / 400 < 0.32
    assert 0.05 < after["1+1="] / 1600 < 0.11  # 0.25 / 3.25


def test_aimed_draws_follow_from_their_numbers() -> None:
    forwards, straight = (Mixture([arithmetic()], seed=3, exclude=frozenset()) for _ in range(2))
    for mixture in (forwards, straight):
        mixture.aim(lambda number: lambda name, task: 0.1 if number % 2 else 0.9)
    drawn = [forwards.draw(number) for number in range(50)]
    assert straight.draw(49) == drawn[49] and [straight.draw(number) for number in range(50)] == drawn
