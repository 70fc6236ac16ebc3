"""Code: families mean what they say, replies are read as asked, and cheating does not pay."""

import asyncio
import json
import re
from random import Random

import pytest

from burnish.core.errors import ConfigError, SandboxError
from burnish.core.types import Message, Task
from burnish.domains import code, open_domain
from burnish.domains.code_families import Rule, draw, is_telling, reference, run_gold
from burnish.domains.code_verdict import code_task, judge, perturbed, read_truth
from burnish.rewards.code_value import Case, CodeTask
from burnish.rewards.value_compare import is_same
from burnish.sandbox import Outcome

TASK = Task(
    id="code/train/1/0",
    domain="code",
    messages=(Message(role="user", content="double"),),
    truth={
        "function": "double",
        "shown": [50],
        "shown_value": 100,
        "calls": [[0], [1], [2], [3]],
        "expected": [0, 2, 4, 6],
        "family": "linear",
        "variant": 0,
        "constants": {"k": 2, "m": 0},
    },
)
SEEN, HELD_OUT = code.EVAL_FAMILIES["seen"], code.EVAL_FAMILIES["held_out"]
DOUBLE = "def double(n):\n    return n * 2"


def verdict_on(reply: str, box, task: Task = TASK):
    return asyncio.run(code.Code().verify(task, reply, box))


@pytest.mark.parametrize("family", SEEN + HELD_OUT, ids=lambda family: family.name)
def test_each_family_has_many_problems_with_telling_inputs(family) -> None:
    problems = [draw(family, Random(seed)) for seed in range(20)]
    assert len({code.prompt(problem) for problem in problems}) >= 19
    for problem in problems:
        shown, hidden = json.dumps(problem.example), [json.dumps(call) for call in problem.calls]
        assert len(hidden) == 8 and shown not in hidden and len(set(hidden)) == 8
        assert max(problem.expected.count(value) for value in problem.expected) <= 4


@pytest.mark.parametrize("family", SEEN + HELD_OUT, ids=lambda family: family.name)
def test_each_gold_is_short_and_gives_the_shown_example(family) -> None:
    problem = draw(family, Random(5))
    assert len(problem.solution.splitlines()) <= 7
    assert run_gold(problem.solution, problem.function, [problem.example]) == [problem.example_value]
    assert "{" not in code.prompt(problem) + problem.solution


MEANINGS = [
    ("sum_parity", {"bit": 1}, [[1, 2, 3, -3]], 1),
    ("count_compare", {"sign": ">=", "k": 5}, [[4, 5, 6]], 2),
    ("keep_compare", {"sign": "<", "k": 5}, [[4, 5, 6]], [4]),
    ("scale_each", {"sign": "-", "k": 2}, [[4, 5]], [2, 3]),
    ("keep_multiples", {"k": 3}, [[3, 4, -6, 0]], [3, -6, 0]),
    ("count_letter", {"c": "a"}, ["banana tea"], 4),
    ("keep_long_words", {"sign": ">", "k": 3}, [["ant", "bread"]], ["bread"]),
    ("join_words", {"sep": "-"}, [["a", "b"]], "a-b"),
    ("text_case", {"way": "title"}, ["a cat"], "A Cat"),
    ("first_items", {"slice": "-2:"}, [[1, 2, 3]], [2, 3]),
    ("reverse_list", {}, [["a", "b"]], ["b", "a"]),
    ("extreme", {"call": "min", "k": -1}, [[]], -1),
    ("repeat_text", {"k": 2}, ["ab"], "abab"),
    ("linear", {"k": 3, "sign": "-", "m": 1}, [4], 11),
    ("is_multiple", {"k": 3}, [9], True),
    ("first_letters", {}, [["ant", "bee"]], ["a", "b"]),
    ("word_lengths", {}, [["ant", "bread"]], [3, 5]),
    ("replace_letter", {"c": "a", "d": "u"}, ["banana"], "bununu"),
    ("count_up", {"k": 1}, [3], [1, 2, 3]),
    ("limit", {"call": "max", "k": 10}, [4], 10),
    ("count_words", {}, ["a cat"], 2),
    ("sort_list", {"extra": ", reverse=True"}, [[1, 3, 2]], [3, 2, 1]),
    ("starts_with", {"c": "a"}, [["ant", "tea"]], ["ant"]),
    ("contains", {"k": 2}, [[1, 2]], True),
    ("end_sum", {"sign": "*"}, [[2, 9, 4]], 8),
    ("distance", {}, [3, 9], 6),
    ("remove_value", {"k": 2}, [[2, 1, 2]], [1]),
    ("is_palindrome", {}, ["abba"], True),
    ("sum_of_squares", {"exponent": 3}, [[1, 2]], 9),
    ("every_nth", {"k": 2}, [[1, 2, 3]], [1, 3]),
    ("running_total", {"name": "product", "start": 1, "sign": "*"}, [[2, 3, 4]], [2, 6, 24]),
    ("count_equal", {"k": 2}, [[2, 1, 2]], 2),
    ("negate_each", {}, [[1, -2]], [-1, 2]),
    ("sum_list", {}, [[1, -2, 4]], 3),
    ("multiply_pair", {}, [3, -2], -6),
    ("pick_of_two", {"call": "max"}, [3, 9], 9),
    ("power_number", {"exponent": 3}, [-2], -8),
    ("count_items", {}, [[4, 4]], 2),
    ("count_sign", {"test": "<"}, [[-1, 0, 2]], 1),
    ("keep_sign", {"test": ">"}, [[-1, 0, 2]], [2]),
    ("sum_some", {"slice": "-2:"}, [[5, 1, 2]], 3),
    ("remainder", {"k": 4}, [-3], 1),
    ("sum_to", {}, [4], 10),
    ("is_between", {"k": 3, "m": 30}, [30], True),
    ("add_pairs", {}, [[1, 2, 3], [4, 5]], [5, 7]),
    ("replace_value", {"k": 2, "m": 9}, [[2, 1, 2]], [9, 1, 9]),
    ("append_value", {"k": 7}, [[1]], [1, 7]),
    ("repeat_list", {"k": 2}, [[1, 2]], [1, 2, 1, 2]),
    ("average", {}, [[1, 2]], 1.5),
    ("absolute_each", {}, [[-1, 2]], [1, 2]),
    ("text_length", {}, ["a cat"], 5),
    ("first_word", {}, ["a cat"], "a"),
    ("surround", {"left": "[", "right": "]"}, ["ab"], "[ab]"),
    ("add_ending", {"tail": "!"}, [["a", "b"]], ["a!", "b!"]),
    ("split_words", {}, ["a cat"], ["a", "cat"]),
    ("reverse_text", {}, ["abc"], "cba"),
    ("count_vowels", {}, ["a big cat"], 3),
    ("longest_word", {}, [["ant", "bread", "cloud"]], "bread"),
    ("remove_spaces", {}, ["a big cat"], "abigcat"),
    ("total_length", {}, [["ant", "bread"]], 8),
    ("contains_letter", {"c": "b"}, ["a big cat"], True),
    ("keep_containing", {"c": "r"}, [["ant", "bread"]], ["bread"]),
    ("acronym", {}, [["ant", "bread"]], "ab"),
    ("sum_multiples", {"k": 3}, [[3, 4, 6]], 9),
    ("count_parity", {"bit": 0}, [[1, 2, 4]], 2),
    ("keep_parity", {"bit": 0}, [[1, 2, 4]], [2, 4]),
    ("count_long_words", {"sign": "<", "k": 4}, [["ant", "bread"]], 1),
    ("clamp", {"k": 5, "m": 30}, [99], 30),
    ("reverse_words", {}, ["a big cat"], "cat big a"),
    ("last_letters", {}, [["ant", "bee"]], ["t", "e"]),
    ("change_words", {"way": "upper"}, [["ant"]], ["ANT"]),
    ("ends_with", {"c": "t"}, [["ant", "tea"]], ["ant"]),
    ("power_each", {"exponent": 2}, [[3, -2]], [9, 4]),
    ("is_compare", {"sign": "<", "k": 10}, [10], False),
    ("drop_items", {"slice": ":-2"}, [[1, 2, 3]], [1]),
    ("swap_pair", {}, [1, 2], [2, 1]),
    ("count_down", {"k": 1}, [3], [3, 2, 1]),
    ("remove_letter", {"c": "a"}, ["banana"], "bnn"),
    ("digit_sum", {}, [407], 11),
    ("spread", {}, [[3, -2, 9]], 11),
    ("remove_duplicates", {}, [[3, 1, 3, 2, 1]], [3, 1, 2]),
    ("multiply_all", {}, [[2, 3, -4]], -24),
    ("subtract_pair", {}, [3, 9], 6),
    ("sum_sign", {"test": ">"}, [[-1, 2, 3]], 5),
    ("count_multiples", {"k": 3}, [[3, 4, 6]], 2),
    ("remove_multiples", {"k": 3}, [[3, 4, 6]], [4]),
    ("quotient", {"k": 4}, [-3], -1),
    ("is_outside", {"k": 3, "m": 30}, [31], True),
    ("subtract_pairs", {}, [[1, 2, 3], [4, 5]], [-3, -3]),
    ("prepend_value", {"k": 7}, [[1]], [7, 1]),
    ("scale_and_shift", {"k": 2, "m": 1}, [[1, 2]], [3, 5]),
    ("last_word", {}, ["a big cat"], "cat"),
    ("add_beginning", {"head": "un"}, [["do"]], ["undo"]),
    ("shortest_word", {}, [["bread", "ant", "bee"]], "ant"),
    ("reverse_each", {}, [["ant", "bee"]], ["tna", "eeb"]),
    ("count_containing", {"c": "e"}, [["ant", "bee"]], 1),
    ("remove_containing", {"c": "e"}, [["ant", "bee"]], ["ant"]),
    ("remove_vowels", {}, ["a big cat"], " bg ct"),
    ("reverse_number", {}, [120], 21),
    ("extremes_sum", {}, [[3, -2, 9]], 7),
    ("average_pair", {}, [1, 2], 1.5),
    ("powers_to", {"exponent": 2}, [3], 14),
    ("join_reversed", {}, [["a", "b"]], "ba"),
]


@pytest.mark.parametrize(("name", "values", "arguments", "expected"), MEANINGS, ids=[row[0] for row in MEANINGS])
def test_a_family_computes_what_it_asks_for(name: str, values: dict, arguments: list, expected: object) -> None:
    family = next(family for family in SEEN + HELD_OUT if family.name == name)
    body = family.body.format(a="p", b="q", **values).replace("\n", "\n    ")
    parameters = ", ".join("pq"[: len(family.takes)])
    assert run_gold(f"def f({parameters}):\n    {body}", "f", [arguments]) == [expected]


SAYINGS = {
    ("more", "sign"): {
        ("greater than", ">"),
        ("less than", "<"),
        ("at least", ">="),
        ("greater", ">"),
        ("less", "<"),
    },
    ("parity", "bit"): {("even", 0), ("odd", 1)},
    ("size", "sign"): {("long", ">"), ("short", "<")},
    ("which", "call"): {("largest", "max"), ("smallest", "min"), ("larger", "max"), ("smaller", "min")},
    ("power", "exponent"): {("square", 2), ("cube", 3)},
    ("name", "sign"): {("plus", "+"), ("minus", "-"), ("total", "+"), ("product", "*")},
    ("end", "call"): {("least", "max"), ("most", "min")},
    ("side", "test"): {("positive", ">"), ("negative", "<")},
    ("nth", "k"): {("second", 2), ("third", 3)},
}


@pytest.mark.parametrize(("said", "done"), SAYINGS, ids=lambda key: key)
def test_what_a_variant_says_is_what_it_does(said: str, done: str) -> None:
    variants = [one for family in SEEN + HELD_OUT for one in family.variants if said in one and done in one]
    assert {(one[said], one[done]) for one in variants} == SAYINGS[(said, done)]


def test_the_table_of_meanings_has_every_family() -> None:
    assert [row[0] for row in MEANINGS] == [family.name for family in SEEN + HELD_OUT]


def test_held_out_families_ask_for_what_no_seen_family_computes() -> None:
    assert len(SEEN) >= 60 and len(HELD_OUT) >= 40
    rules = [{(family.body, str(family.variants)) for family in families} for families in (SEEN, HELD_OUT)]
    assert not rules[0] & rules[1] and len(rules[1]) == len(HELD_OUT)
    assert len({family.name for family in SEEN + HELD_OUT}) == len(SEEN + HELD_OUT)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f"```python\n{DOUBLE}\n```", DOUBLE + "\n"),
        (f"```\n{DOUBLE}\n```", DOUBLE + "\n"),
        (f"Here it is:\n```py\n{DOUBLE}\n```\nIt doubles.", DOUBLE + "\n"),
        (f"```python\n{DOUBLE}", DOUBLE),
        (f"```python\n{DOUBLE}\n```\n```python\ndef double(n): return 0\n```", DOUBLE + "\n"),
        (DOUBLE, DOUBLE),
        (f"Sure!\n{DOUBLE}\nThis doubles n.", DOUBLE),
        (f"import math\n\n{DOUBLE}\n\nprint it", f"import math\n\n{DOUBLE}\n"),
        ("n * 2", ""),
        ("", ""),
        ("x" * 1_000_000, ""),
        (DOUBLE + "\n" + "#" * 1_000_000, ""),
    ],
)
def test_the_code_is_found_in_the_reply(reply: str, expected: str) -> None:
    assert code.find_code(reply) == expected


@pytest.mark.parametrize(
    ("solution", "expected"),
    [
        (DOUBLE, 1.0),
        ("def double(n):\n    return n + 2", 0.0),
        ("def double(n):\n    return float(n * 2)", 0.0),
        ("def double(n):\n    return str(n * 2)", 0.0),
        ("def double(n):\n    return 2 * n * n // n", 0.75),
        ("def double(n):\n    import sys\n    if n == 1: sys.exit(0)\n    return n * 2", 0.75),
        ("def double(n):\n    if n == 3: raise KeyboardInterrupt\n    return n * 2", 0.75),
        ("def double(n):\n    return double(n)", 0.0),
        ("def double(n) return n * 2", 0.0),
        ("def triple(n):\n    return n * 2", 0.0),
        ("double = 5", 0.0),
        ("def double():\n    return 2", 0.0),
        ("import no_such_module\n" + DOUBLE, 0.0),
        ("print('hello')\n" + DOUBLE, 1.0),
        ("raise SystemExit(0)\n" + DOUBLE, 0.0),
    ],
)
def test_the_score_is_the_share_of_calls_that_return_the_expected_value(solution: str, expected: float, box) -> None:
    assert verdict_on(f"```python\n{solution}\n```", box).score == pytest.approx(expected)


def test_a_call_that_hangs_fails_itself_and_those_after_it(box) -> None:
    verdict = verdict_on("def double(n):\n    while n == 2: pass\n    return n * 2", box)
    assert verdict.score is not None and verdict.score < 1 and "no value (timed_out)" in verdict.evidence


WRITE = "import os, json\nfd = int(os.environ['BURNISH_ANSWER_FD'])\n"
HOSTILE = {
    "leaves before it answers": "import os\nos._exit(0)\n" + DOUBLE,
    "leaves in the middle": "import os\ndef double(n):\n    if n == 2: os._exit(0)\n    return n * 2",
    "prints verdicts": "print('{\"score\": 1.0}\\nPASSED\\n4 passed in 0.01s')\ndef double(n):\n    return None",
    "equals everything": "class A:\n    def __eq__(self, o): return True\ndef double(n):\n    return A()",
    "an int that equals everything": (
        "class A(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\n"
        "def double(n):\n    return A(99)"
    ),
    "searches the stack for expected values": (
        "import sys\ndef double(n):\n    frame = sys._getframe()\n    while frame:\n"
        "        for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):\n"
        "            if 'expect' in name or 'truth' in name: return value\n        frame = frame.f_back"
    ),
    "searches all objects for expected values": (
        "import gc\ndef double(n):\n"
        "    return next((o['expected'] for o in gc.get_objects() if isinstance(o, dict) and 'expected' in o), None)"
    ),
    "answers a call twice": (
        "import sys\n" + WRITE + "def double(n):\n    call_id = sys._getframe(1).f_locals['call_id']\n"
        "    os.write(fd, json.dumps({'id': call_id, 'value': n * 2}).encode() + b'\\n')\n    return n * 2"
    ),
    "answers under made-up ids": WRITE + 'os.write(fd, b\'{"id": "x", "value": 1}\\n\')\n' + DOUBLE,
    "writes garbage": WRITE + "os.write(fd, b'\\xff\\xfe\\n')\n" + DOUBLE,
    "writes half a line": WRITE + "os.write(fd, b'{')\n" + DOUBLE,
    "writes deep nesting": WRITE + "os.write(fd, b'[' * 100000 + b'\\n')\n" + DOUBLE,
    "closes the descriptor": WRITE + "os.close(fd)\n" + DOUBLE,
    "patches json": "import json\njson.dumps = lambda *a, **k: '{\"passed\": 1.0}'\n" + DOUBLE,
    "returns a huge int": "def double(n):\n    return 10 ** 10000",
    "returns nan": "def double(n):\n    return float('nan')",
    "returns itself": "def double(n):\n    a = []\n    a.append(a)\n    return a",
}


@pytest.mark.parametrize("solution", HOSTILE.values(), ids=HOSTILE.keys())
def test_cheating_earns_nothing(solution: str, box) -> None:
    assert verdict_on(f"```python\n{solution}\n```", box).score == 0


TABLE = "TABLE = {50: 100, 0: 0, 1: 2, 2: 4, 3: 6}\ndef double(n):\n    "
SPECIAL = {
    "the shown example alone": "def double(n):\n    if n == 50: return 100",
    "the shown example, else a constant": "def double(n):\n    return 100 if n == 50 else 2",
    "every listed input": TABLE + "return TABLE[n]",
    "every listed input, else a constant": TABLE + "return TABLE.get(n, 6)",
    "every listed input, else the input": TABLE + "return TABLE.get(n, n)",
    "every listed input, else a guess": TABLE + "return TABLE.get(n, n + 30)",
    "half of the listed inputs": TABLE + "return TABLE[n] if n < 2 else None",
    "a constant": "def double(n):\n    return 4",
    "the input": "def double(n):\n    return n",
}


@pytest.mark.parametrize("solution", SPECIAL.values(), ids=SPECIAL.keys())
def test_special_cases_earn_nothing(solution: str, box) -> None:
    assert verdict_on(f"```python\n{solution}\n```", box).score == 0


def test_knowing_all_listed_inputs_by_heart_is_named(box) -> None:
    verdict = verdict_on(f"```python\n{SPECIAL['every listed input']}\n```", box)
    assert (verdict.parts["special_cased"], verdict.parts["hidden"], verdict.parts["perturbed"]) == (1, 1, 0)
    assert "special-cased" in verdict.evidence
    constant = verdict_on("def double(n):\n    return 4", box)
    assert (constant.parts["computes_nothing"], constant.parts["hidden"]) == (1, 0.25)


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
        assert expected == run_gold(problem.solution, problem.function, calls)


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


def test_a_value_that_json_does_not_have_counts_as_not_returned(box) -> None:
    verdict = verdict_on(f"```python\n{HOSTILE['returns nan']}\n```", box)
    assert verdict.parts["returned"] == 0 and "raised 'ValueError'" in verdict.evidence


@pytest.mark.parametrize("name", ["leaves in the middle", "answers a call twice", "answers under made-up ids"])
def test_tampering_is_named_in_the_evidence(name: str, box) -> None:
    verdict = verdict_on(f"```python\n{HOSTILE[name]}\n```", box)
    assert verdict.evidence.startswith("tampered") and verdict.parts["tampered"] == 1


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (1, 1, True),
        (True, 1, False),
        (1, True, False),
        (1.0, 1, False),
        (0.1 + 0.2, 0.3, True),
        (0.3001, 0.3, False),
        ("1", 1, False),
        ([1, 2], [1, 2], True),
        ([1, True], [1, 1], False),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        (None, 0, False),
        ([], [], True),
    ],
)
def test_values_are_compared_with_exact_types(value: object, expected: object, same: bool) -> None:
    assert is_same(value, expected) is same


def outcome(answer: bytes, ending: str = "exited") -> Outcome:
    return Outcome(ending=ending, exit_code=0, stdout=b"", stderr=b"", answer=answer, wall_s=0.1)


@pytest.mark.parametrize(
    ("answer", "ending", "expected"),
    [
        (b'{"id": "i", "value": 1}\n{"id": "j", "value": 2}\n', "exited", 1.0),
        (b'{"id": "i", "value": 1}\n{"id": "j", "error": "KeyError"}\n', "exited", 0.5),
        (b'{"id": "i", "value": 1}\n', "exited", 0.0),
        (b'{"id": "i", "value": 1}\n', "timed_out", 0.5),
        (b'{"id": "i", "value": 1}\n{"id": "j", "va', "over_memory", 0.5),
        (b'{"id": "i", "value": 1}\n{"id": "i", "value": 1}\n', "timed_out", 0.0),
        (b'{"id": "i", "value": 1, "score": 1}\n{"id": "j", "value": 2}\n', "exited", 0.0),
        (b'{"id": 1, "value": 1}\n{"id": "j", "value": 2}\n', "exited", 0.0),
        (b"", "killed", 0.0),
        (b"", "exited", 0.0),
    ],
)
def test_answers_are_judged_by_id(answer: bytes, ending: str, expected: float) -> None:
    task = CodeTask(function="f", cases=(Case(arguments=[1], expected=1), Case(arguments=[2], expected=2)))
    assert judge(task, {"i": 0, "j": 1}, outcome(answer, ending)).score == expected


def test_a_sandbox_failure_is_not_a_score() -> None:
    class BrokenBox:
        isolation = "none"

        async def run(self, job):
            raise SandboxError("no room")

        async def stop(self) -> None: ...

    with pytest.raises(SandboxError, match="no room"):
        verdict_on(f"```python\n{DOUBLE}\n```", BrokenBox())


def test_expected_values_never_enter_the_sandbox() -> None:
    jobs = []

    class RecordingBox:
        isolation = "none"

        async def run(self, job):
            jobs.append(job)
            return outcome(b"")

        async def stop(self) -> None: ...

    verdict_on(f"```python\n{DOUBLE}\n```", RecordingBox())
    sent = json.loads(jobs[0].stdin)
    asked = [call[1] for call in sent["calls"]]
    assert set(sent) == {"source", "function", "calls"} and len(asked) == 13
    assert all(call in asked for call in [[50], [0], [1], [2], [3]]) and all(len(call) == 1 for call in asked)
    assert not jobs[0].files


@pytest.mark.parametrize(("eval_on", "expected"), [("mixed", 20), ("held_out", 40), ("seen", 0)])
def test_eval_has_the_share_of_held_out_families_that_the_option_names(eval_on: str, expected: int) -> None:
    domain = open_domain("code", {"eval_on": eval_on})
    tags = [domain.task("eval", 1, index).tags[0] for index in range(40)]
    assert tags.count("held_out_family") == expected


def test_training_never_draws_a_held_out_family() -> None:
    domain = open_domain("code")
    trained = {domain.task("train", 1, index).source for index in range(300)}
    assert trained == {f"code/{family.name}" for family in SEEN}


def test_no_prompt_of_a_seen_family_is_in_both_splits() -> None:
    domain = open_domain("code", {"eval_on": "seen"})
    trained, evaluated = (
        {code.split_of(domain.task(split, 1, index).messages[0].content) for index in range(100)}
        for split in ("train", "eval")
    )
    assert (trained, evaluated) == ({"train"}, {"eval"})


@pytest.mark.parametrize(
    ("options", "message"),
    [({"family": 1}, "unknown option 'family'; known options: eval_on"), ({"eval_on": "all"}, "mixed, held_out, seen")],
)
def test_a_wrong_option_is_refused_with_the_right_ones(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        open_domain("code", options)
