"""Code by value: what is right scores, what cheats does not, and one bad call costs one call."""

import json
from dataclasses import replace

import pytest

from burnish.rewards.code_value import Case, CodeTask, judge_outcome, verify
from burnish.rewards.code_value_answers import Tampered, read_answers
from burnish.rewards.code_value_hidden import verify_hidden, with_perturbed
from burnish.rewards.code_value_worker import decode, encode
from burnish.rewards.perturb import perturb
from burnish.rewards.value_compare import Comparison, is_same, parse_line
from burnish.sandbox import Outcome

DOUBLE = "def double(n):\n    return n * 2"
TASK = CodeTask(
    function="double", cases=tuple(Case(arguments=[n], expected=n * 2) for n in range(4)), call_s=0.1, keeps_order=True
)
TOGETHER = replace(TASK, call_s=None)


@pytest.mark.parametrize(
    ("solution", "score", "evidence"),
    [
        (DOUBLE, 1.0, "4 of 4"),
        ("def double(n):\n    while n == 1: pass\n    return n * 2", 0.75, "timed out"),
        ("import os\ndef double(n):\n    if n == 1: os.abort()\n    return n * 2", 0.75, "died of signal 6"),
        ("def double(n):\n    while n == 1: print('x' * 9999)\n    return n * 2", 0.75, "timed out"),
        ("def double(n):\n    while n: pass\n    return n * 2", 0.25, "timed out"),
        ("import sys\ndef double(n):\n    sys.exit(0)", 0.0, "SystemExit"),
        ("import os\nos.abort()\n" + DOUBLE, 0.0, "died of signal 6"),
        ("def double(n):\n    return [n * 2] * 10 ** 9", 0.0, "MemoryError"),
    ],
)
def test_a_call_that_hangs_or_crashes_takes_only_itself(solution: str, score: float, evidence: str, runner, box):
    verdict = runner.run(verify(TASK, solution, box))
    assert (verdict.score, evidence in verdict.evidence, verdict.parts["tampered"]) == (score, True, 0)


ANSWER = "import os, json, sys\nfd = int(os.environ['BURNISH_ANSWER_FD'])\n"
ID = "sys._getframe(1).f_locals['call_id']"
HOSTILE = {
    "leaves": "import os\ndef double(n):\n    os._exit(0)",
    "equals everything": "class A(int):\n    def __eq__(self, o): return True\ndef double(n):\n    return A(99)",
    "guesses ids": ANSWER + 'os.write(fd, b\'{"id": "00", "value": 0}\\n\')\n' + DOUBLE,
    "answers twice": (
        ANSWER + f"def double(n):\n    os.write(fd, json.dumps({{'id': {ID}, 'value': n * 2}}).encode() + b'\\n')\n"
        "    return n * 2"
    ),
    "a child answers too": "import os\ndef double(n):\n    os.fork()\n    return n * 2",
    "patches json": 'import json\njson.dumps = lambda *a, **k: \'{"id": "x", "value": 1}\'\n' + DOUBLE,
    "closes the descriptor": ANSWER + "os.close(fd)\n" + DOUBLE,
    "floods the descriptor": ANSWER + "while True: os.write(fd, b'[' * 65536)\n" + DOUBLE,
    "answers beyond a double": ANSWER + f'def double(n):\n    os.write(fd, (\'{{"id": "\' + {ID} + '
    '\'", "value": 1e400}\\n\').encode())\n    return n * 2',
    "returns deep nesting": "def double(n):\n    v = n * 2\n    for _ in range(5000): v = [v]\n    return v",
    "returns a huge int": "def double(n):\n    return 10 ** 5000",
    "kills the worker": "import os, signal\ndef double(n):\n    os.kill(os.getppid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("solution", HOSTILE.values(), ids=HOSTILE.keys())
def test_cheating_earns_nothing_when_calls_run_apart(solution: str, runner, box) -> None:
    assert runner.run(verify(TASK, solution, box)).score == 0


def test_a_class_is_judged_by_its_steps(runner, box) -> None:
    cases = [[[5], [["add", [2]], ["get", []]]], [[0], [["add", [1]], ["add", [1]], ["get", []]]]]
    values = [[None, 7], [None, None, 2]]
    task = CodeTask(
        function="Counter",
        cases=tuple(Case(arguments=a, expected=v) for a, v in zip(cases, values, strict=True)),
        is_class=True,
        call_s=None,
    )
    right = (
        "class Counter:\n    def __init__(self, n): self.n = n\n    def add(self, k): self.n += k\n"
        "    def get(self): return self.n"
    )
    assert runner.run(verify(task, right, box)).score == 1
    assert runner.run(verify(task, right.replace("+= k", "= k"), box)).score == 0


def test_what_a_call_does_to_its_arguments_can_be_asked_for(runner, box) -> None:
    task = CodeTask(
        function="f", cases=(Case(arguments=[[3, 1, 2]], expected=[[1, 2, 3]]),), observe="arguments", call_s=None
    )
    assert runner.run(verify(task, "def f(x):\n    x.sort()", box)).score == 1
    assert runner.run(verify(task, "def f(x):\n    return sorted(x)", box)).score == 0


def test_typed_values_tell_a_tuple_from_a_list_and_use_up_generators(runner, box) -> None:
    tuple_task = CodeTask(
        function="f",
        cases=(Case(arguments=[encode({1, 2})], expected=encode((1, 2))),),
        comparison=Comparison(is_typed=True),
        call_s=None,
    )
    assert runner.run(verify(tuple_task, "def f(x):\n    return tuple(sorted(x))", box)).score == 1
    assert runner.run(verify(tuple_task, "def f(x):\n    return sorted(x)", box)).score == 0
    generator = replace(tuple_task, cases=(Case(arguments=[], expected=encode(iter([0, 1]))),))
    assert runner.run(verify(generator, "def f():\n    yield 0\n    yield 1", box)).score == 1
    endless = runner.run(verify(generator, "def f():\n    while True: yield 0", box))
    assert endless.score == 0 and "ValueError" in endless.evidence


def test_an_expected_exception_is_no_failure_and_its_absence_is(runner, box) -> None:
    task = replace(TOGETHER, cases=(*TASK.cases, Case(arguments=[-1], raises="ValueError")))
    checks = DOUBLE.replace("return", "if n < 0: raise ValueError\n    return")
    assert runner.run(verify(task, checks, box)).score == 1
    assert runner.run(verify(task, DOUBLE, box)).score == 0.8


TABLE = "def double(n):\n    return {0: 0, 1: 2, 2: 4, 3: 6}.get(n, 0)"


def test_a_table_of_the_shown_inputs_is_found_out(runner, box) -> None:
    shown = tuple(Case(arguments=[n], expected=n * 2, origin="shown") for n in (0, 1, 2, 3))
    hidden = Case(arguments=[40], expected=80)
    task = replace(TOGETHER, cases=(*shown, hidden))
    honest = runner.run(verify_hidden(task, DOUBLE, box, reference=DOUBLE, seed=3))
    assert (honest.score, honest.parts["special_cased"], honest.parts["perturbed"]) == (1, 0, 1)
    table = TABLE.replace("3: 6", "3: 6, 40: 80")
    cheat = runner.run(verify_hidden(task, table, box, reference=DOUBLE, seed=3))
    assert (cheat.parts["special_cased"], cheat.parts["shown"]) == (1, 1)
    assert cheat.score is not None and cheat.score < 0.3 and "special-cased" in cheat.evidence


def test_a_reference_that_fails_its_own_task_is_not_the_replys_fault(runner, box) -> None:
    verdict = runner.run(verify_hidden(TOGETHER, DOUBLE, box, reference="def double(n):\n    return n", seed=1))
    assert verdict.kind == "unscorable" and "the reference" in verdict.evidence


def test_without_a_reference_values_that_change_from_call_to_call_cost(runner, box) -> None:
    counts = "calls = []\ndef double(n):\n    calls.append(n)\n    return n * 2 if n < 4 else len(calls)"
    task = replace(TOGETHER, cases=(*TASK.cases, Case(arguments=[90], expected=180)))
    honest = runner.run(verify_hidden(task, DOUBLE, box, reference=None, seed=2))
    changing = runner.run(verify_hidden(task, counts, box, reference=None, seed=2))
    assert honest.score == 1 and "5 of 5" in honest.evidence
    assert changing.score is not None and changing.score < 0.5 and "once and" in changing.evidence


def test_inputs_on_which_the_reference_raises_are_dropped(runner, box) -> None:
    picky = "def double(n):\n    if n > 5: raise ValueError\n    return n * 2"
    task = replace(TOGETHER, cases=(*TASK.cases, Case(arguments=[60], raises="ValueError")))
    task = replace(task, cases=(*task.cases, Case(arguments=[-60], expected=-120)))
    harder = runner.run(with_perturbed(task, picky, box, seed=1, num=4))
    new = [case for case in harder.cases if case.origin == "perturbed"]
    assert new and all(case.expected == case.arguments[0] * 2 and case.arguments[0] <= 3 for case in new)


def sent(*lines: bytes, ending: str = "exited") -> Outcome:
    answer = b"".join(line + b"\n" for line in lines)
    return Outcome(ending=ending, exit_code=0, stdout=b"", stderr=b"", answer=answer, wall_s=0.1)


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": "i", "id": "i", "value": 0}',
        b'{"id": "i", "value": NaN}',
        b'{"id": "i", "value": 1e400}',
        b'{"id": "i", "value": ' + b"9" * 5000 + b"}",
        b'{"id": "i", "value": ' + b"[" * 9999 + b"]" * 9999 + b"}",
        b'{"id": "i", "value": 0, "score": 1}',
        b'{"id": "i", "error": null}',
        b'"i"',
        b"\xff",
        b"",
    ],
)
def test_a_line_that_the_worker_cannot_have_written_is_tampering(line: bytes) -> None:
    with pytest.raises(Tampered):
        read_answers(sent(line), ["i"])
    assert judge_outcome(replace(TOGETHER, cases=TASK.cases[:1]), {"i": 0}, sent(line)).parts["tampered"] == 1


def test_a_doubled_key_within_a_value_equals_nothing() -> None:
    task = replace(TOGETHER, cases=(Case(arguments=[], expected={"a": 1}),))
    assert judge_outcome(task, {"i": 0}, sent(b'{"id": "i", "value": {"a": 1, "a": 1}}')).score == 0
    assert judge_outcome(task, {"i": 0}, sent(b'{"id": "i", "value": {"a": 1}}')).score == 1


CLOSE = Comparison(rule="close", rel_tol=1e-3)
UNORDERED = Comparison(rule="unordered")
NESTED = Comparison(rule="unordered_nested")
ONE_OF = Comparison(rule="one_of")
TYPED = Comparison(is_typed=True)


@pytest.mark.parametrize(
    ("value", "expected", "comparison", "same"),
    [
        (True, 1, Comparison(), False),
        (1.0, 1, Comparison(), False),
        (1.0, 1, CLOSE, True),
        (True, 1, CLOSE, False),
        (1001.0, 1000, CLOSE, True),
        (1002.0, 1000, CLOSE, False),
        (1001, 1000, CLOSE, False),
        (10**400, 1.0, CLOSE, False),
        ([1, 2, 2], [2, 1, 2], UNORDERED, True),
        ([1, 2, 2], [2, 1, 1], UNORDERED, False),
        ([1, True], [True, 1], UNORDERED, True),
        ([1, 1], [1, True], UNORDERED, False),
        ([0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3], UNORDERED, True),
        ([[1, 2], [3]], [[3], [2, 1]], UNORDERED, False),
        ([[1, 2], [3]], [[3], [2, 1]], NESTED, True),
        ([[1, 2], [2]], [[1], [2, 2]], NESTED, False),
        ("a", ["b", "a"], ONE_OF, True),
        ("c", ["b", "a"], ONE_OF, False),
        ([1, 2], [1, 2], TYPED, True),
        (encode((1, 2)), [1, 2], TYPED, False),
        (encode({3, 1, 2}), encode({2, 3, 1}), TYPED, True),
        (encode({1}), encode({True}), TYPED, False),
        (encode({"b": 1, "a": 2}), encode({"a": 2, "b": 1}), TYPED, True),
        (encode({1: "a"}), encode({"1": "a"}), TYPED, False),
        (encode(float("inf")), encode(float("inf")), TYPED, True),
        (encode(10**5000), encode(10**5000), TYPED, True),
    ],
)
def test_rules_of_comparison(value, expected, comparison: Comparison, same: bool) -> None:
    assert is_same(value, expected, comparison) is same


def test_typed_values_come_back_as_they_were() -> None:
    value = [(1, 2.5), {"a", "b"}, {(1,): None}, b"\xff", 10**400, 1j, frozenset({True}), "x"]
    assert decode(parse_line(json.dumps(encode(value)).encode())) == value


def test_a_long_hostile_bag_is_compared_in_little_work() -> None:
    bag = [[i % 7, [str(i)] * 3] for i in range(20_000)]
    assert is_same(bag, bag[::-1], NESTED) and not is_same(bag, [*bag[1:], [0]], NESTED)


@pytest.mark.parametrize(
    ("examples", "holds"),
    [
        ([[1], [9]], lambda n: 1 <= n <= 9),
        ([[[1, 2, 3]], [[4, 9, 11]]], lambda xs: xs == sorted(set(xs)) and set(xs) <= set(range(1, 12))),
        ([[[[1, 2], [3, 4]]]], lambda rows: [len(row) for row in rows] == [2, 2]),
        ([["ab cd ef gh"], [""]], lambda text: text == " ".join(text.split())),
        ([["2020-01-31"], ["1999-12-01"]], lambda text: len(text) == 10 and text[4] == "-"),
        (
            [[{"a": 1, "b": "x"}], [{"a": 5, "b": "y"}]],
            lambda table: table.keys() == {"a", "b"} and 1 <= table["a"] <= 5,
        ),
        ([[0.25], [0.5]], lambda x: 0.25 <= x <= 0.5 and round(x, 2) == x),
        ([[encode((1, 5))], [encode((7, 2))]], lambda value: value["$"] == "tuple" and len(value["items"]) == 2),
    ],
)
def test_perturbed_inputs_keep_their_shape_and_are_new(examples, holds) -> None:
    drawn = perturb(examples, seed=7, num=6)
    assert len(drawn) >= 5 and all(holds(*arguments) for arguments in drawn)
    texts = [json.dumps(arguments) for arguments in drawn]
    assert len(set(texts)) == len(texts) and not set(texts) & {json.dumps(example) for example in examples}
    assert drawn == perturb(examples, seed=7, num=6) != perturb(examples, seed=8, num=6)


def test_perturbed_steps_keep_their_methods() -> None:
    examples = [[[5], [["add", [2]], ["get", []]]], [[1], [["add", [9]]]]]
    drawn = perturb(examples, seed=1, num=5, is_class=True)
    assert {tuple(method for method, _ in steps) for _, steps in drawn} <= {("add", "get"), ("add",)}
    assert len(drawn) == 5
