"""`code`: what a solution scores, by the values that come out of its process."""

import json

import pytest

from burnish.core.errors import SandboxError
from burnish.rewards.code_value import Case, CodeTask, judge_outcome
from burnish.rewards.value_compare import is_same
from burnish.sandbox import Outcome
from tests.domains.double import DOUBLE, verdict_on


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
    assert judge_outcome(task, {"i": 0, "j": 1}, outcome(answer, ending)).score == expected


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
