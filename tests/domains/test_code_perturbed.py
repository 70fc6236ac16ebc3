"""`code`: the inputs that no task lists are new, enough, and worth asking."""

import json
from random import Random

import pytest

from burnish.core.types import Task
from burnish.domains import code
from burnish.domains.code_families import Rule, draw, is_telling, reference, run_gold
from burnish.domains.code_verdict import code_task, perturbed, read_truth
from tests.domains.double import TASK, verdict_on

SEEN, HELD_OUT = code.EVAL_FAMILIES["seen"], code.EVAL_FAMILIES["held_out"]


@pytest.mark.parametrize("place", ["a", "b"])
def test_either_argument_said_back_earns_nothing(place: str, box) -> None:
    family = code.FAMILIES["pick_of_two"]
    task = code_of(family, draw(family, Random(1)))
    verdict = verdict_on(f"def {task.truth['function']}(a, b):\n    return {place}", box, task)
    assert (verdict.score, verdict.parts["computes_nothing"]) == (0, 1) and verdict.parts["returned"] == 1


def test_what_is_right_on_some_inputs_of_both_kinds_is_paid_for_the_smaller_share(box) -> None:
    verdict = verdict_on("def double(n):\n    return n * 2 if n % 2 == 0 else n", box)
    shares = verdict.parts["hidden"], verdict.parts["perturbed"]
    assert verdict.score == min(shares) and 0 < min(shares) < 1


@pytest.mark.parametrize("family", SEEN + HELD_OUT, ids=lambda family: family.name)
def test_perturbed_inputs_of_each_family_are_new_and_telling(family) -> None:
    for seed in range(3):
        problem = draw(family, Random(seed))
        task = code_of(family, problem)
        truth = read_truth(task.truth)
        calls, expected = perturbed(truth, family, seed)
        listed = [json.dumps(call) for call in (truth.shown, *truth.calls)]
        assert not {json.dumps(call) for call in calls} & set(listed) and is_telling(calls, expected)
        assert len(calls) == 8
        assert expected == run_gold(problem.solution, problem.function, calls)


FEW_VALUES = ("count_up", "sum_to", "count_down", "powers_to", "limit", "is_between")


@pytest.mark.parametrize("name", FEW_VALUES)
def test_where_inputs_have_few_values_a_table_of_the_listed_ones_still_knows_none_of_eight_others(name: str) -> None:
    family = code.FAMILIES[name]
    for seed in range(40):
        truth = read_truth(code_of(family, draw(family, Random(seed))).truth)
        calls, expected = perturbed(truth, family, seed)
        assert not [call for call in calls if call in [truth.shown, *truth.calls]]
        assert len(calls) == 8 and is_telling(calls, expected)


def test_a_table_of_all_inputs_as_small_as_those_listed_is_wrong_on_half_of_the_others(box) -> None:
    family = code.FAMILIES["sum_to"]
    task = code_of(family, draw(family, Random(3)))
    table = {n: sum(range(n + 1)) for n in range(15)}
    solution = f"def {task.truth['function']}(n):\n    return {table}.get(n, 0)"
    verdict = verdict_on(f"```python\n{solution}\n```", box, task)
    assert verdict.parts["hidden"] == 1 and verdict.score == 0 and verdict.parts["special_cased"] == 1


def test_what_tells_words_by_single_spaces_is_right_on_perturbed_texts_too() -> None:
    family = code.FAMILIES["reverse_words"]
    for seed in range(20):
        truth = read_truth(code_of(family, draw(family, Random(seed))).truth)
        for (text,), expected in zip(*perturbed(truth, family, seed), strict=True):
            assert " ".join(str(text).split(" ")[::-1]) == expected


def code_of(family, problem) -> Task:
    """The task of a problem, without a prompt."""
    truth = {
        "function": problem.function,
        "shown": problem.example,
        "shown_value": problem.example_value,
        "calls": problem.calls,
        "expected": problem.expected,
        "family": family.name,
        "variant": problem.rule.variant,
        "constants": dict(problem.rule.constants),
    }
    return Task(id="code/train/1/0", domain="code", messages=(), truth=truth)


def test_equal_tasks_ask_equal_questions_and_others_others() -> None:
    first, again, other = (code.Code().task("train", 1, index) for index in (3, 3, 4))
    cases = [code_task(task, code.FAMILIES[str(task.truth["family"])]).cases for task in (first, again, other)]
    assert cases[0] == cases[1] != cases[2]
    assert [case.origin for case in cases[0]] != sorted((case.origin for case in cases[0]), reverse=True)


def test_a_reference_is_made_of_the_familys_text_and_whole_numbers_alone() -> None:
    assert reference(code.FAMILIES["linear"], Rule(variant=1, constants={"k": 3, "m": 4}), "f") == (
        "def f(a):\n    return a * 3 - 4"
    )
    named = "f(a):\n    return a\nraise SystemExit('text of a task was executed')\ndef f"
    task = Task(id="x", domain="code", messages=(), truth={**TASK.truth, "function": named})
    assert code_task(task, code.FAMILIES["linear"]).function == named
    for constants in ({"k": "__import__('os')", "m": 1}, ["k"]):
        task = Task(id="x", domain="code", messages=(), truth={**TASK.truth, "constants": constants})
        with pytest.raises(AssertionError):
            read_truth(task.truth)
