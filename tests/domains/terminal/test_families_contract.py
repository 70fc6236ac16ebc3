"""Every family of small tasks keeps what the ladder promises; a new file is tested without an edit here."""

import asyncio
import json
from random import Random

import pytest

from burnish.core.errors import ConfigError
from burnish.domains.terminal import families
from burnish.domains.terminal.spec import EndStateCheck, TestsCheck, from_json
from tests.domains.terminal.solving import outcome

KINDS = [(name, level) for name in families.names() for level in families.family(name).levels]
EASIEST_AT_ONCE = [
    pytest.param(name, level, marks=[] if level == families.family(name).levels[0] else pytest.mark.slow)
    for name, level in KINDS
]


def draw(name: str, level: int, seed: int):
    return families.family(name).make(Random(seed), level)


@pytest.mark.parametrize(("name", "level"), EASIEST_AT_ONCE)
def test_the_oracle_solves_and_doing_nothing_does_not(outdoors, name, level):
    task = draw(name, level, 11)
    score, said = outdoors.run(outcome(outdoors.backend, task, task.oracle))
    assert score == 1.0, f"{task.instruction}\n{said}"
    assert outdoors.run(outcome(outdoors.backend, task, ()))[0] == 0.0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "level"), KINDS)
def test_twenty_oracles_solve(outdoors, name, level):
    tasks = [draw(name, level, seed) for seed in range(100, 120)]
    for start in range(0, len(tasks), 4):
        some = tasks[start : start + 4]
        ends = outdoors.run(gather([outcome(outdoors.backend, task, task.oracle) for task in some]))
        for task, (score, said) in zip(some, ends, strict=True):
            assert score == 1.0, f"{task.instruction}\n{said}"


async def gather(awaitables):
    return await asyncio.gather(*awaitables)


@pytest.mark.parametrize(("name", "level"), KINDS)
def test_equal_seeds_give_equal_tasks_that_survive_json_and_other_seeds_give_others(name, level):
    task = draw(name, level, 3)
    assert task == draw(name, level, 3)
    assert from_json(json.dumps(task.to_json())) == task
    assert len({draw(name, level, seed).instruction for seed in range(40)}) >= 32


@pytest.mark.parametrize(("name", "level"), KINDS)
def test_a_task_says_what_it_is_and_its_oracle_ends_with_submit(name, level):
    task = draw(name, level, 5)
    assert (task.family, task.level) == (name, level) and task.source
    assert [call["name"] == "submit" for call in task.oracle] == [False] * (len(task.oracle) - 1) + [True]
    assert len(task.oracle) <= task.max_steps


@pytest.mark.parametrize(("name", "level"), KINDS)
def test_the_answer_is_not_told(name, level):
    for seed in range(12):
        task = draw(name, level, seed)
        if isinstance(task.check, TestsCheck):
            assert task.fault is not None
            assert set(task.check.required) - task.fault.failing, "every failing test is shown"
            mends = [call["arguments"] for call in task.oracle if call["name"] == "replace"]
            answers = [line for each in mends for line in each["new"].splitlines() if line not in each["old"]]
            assert answers
        elif isinstance(task.check, EndStateCheck):
            texts = [one.content.decode() for one in task.check.expected if one.way != "absent"]
            answers = [text for text in texts if text not in task.files.values()]
        else:
            answers = [call["arguments"]["new"] for call in task.oracle if call["name"] == "replace"]
        assert not [each for each in answers if len(each.strip()) > 3 and each.strip() in task.instruction]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_lower_half_is_short(level):
    for one in families.families((level,), is_held_out=False):
        for seed in range(20):
            task = draw(one.name, level, seed)
            assert len(task.oracle) <= 3 and len(task.instruction) <= 320, task.instruction


def test_splits_share_no_instruction_and_training_has_no_held_out_family():
    drawn = {"train": set(), "eval": set()}
    for one in families.families(is_held_out=False):
        for split, told in drawn.items():
            told |= {families.draw(one, Random(seed), one.levels[0], split).instruction for seed in range(10)}
    assert not drawn["train"] & drawn["eval"]
    with pytest.raises(ConfigError, match="held out"):
        families.draw(families.family("wrong_pin"), Random(0), 3, "train")


def test_there_are_thousands_of_tasks_of_twelve_families():
    assert len(families.families(is_held_out=False)) >= 12 and len(families.HELD_OUT) >= 4
    assert set(families.names()) >= families.HELD_OUT
    assert {level for _, level in KINDS} == set(families.LADDER)


def test_an_unknown_family_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"fix_lines.*fix_line"):
        families.family("fix_lines")
