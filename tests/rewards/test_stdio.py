"""Programs judged by what they print."""

import asyncio

import pytest

from burnish.core.errors import SandboxError
from burnish.rewards.stdio import StdioTask, StdioTest, is_right, verify

TASK = StdioTask(
    tests=tuple(StdioTest(stdin=f"{n}\n".encode(), expected=f"{n * 2}\n".encode()) for n in (1, 2, 30)), num_at_once=2
)
READ = "n = int(input())\n"


@pytest.mark.parametrize(
    ("program", "score", "part", "share"),
    [
        (READ + "print(n * 2)", 1.0, "passed", 1.0),
        (READ + "print(n + n, '', sep='  \\n')", 1.0, "passed", 1.0),
        (READ + "print(n * 2)\nimport sys; sys.exit(0)", 1.0, "passed", 1.0),
        (READ + "print(n + 1)", 1 / 3, "wrong", 2 / 3),
        (READ + "print(n * 2, n * 2)", 0.0, "wrong", 1.0),
        (READ + "print(n * 2)\nraise ValueError", 0.0, "crashed", 1.0),
        (READ + "print(n * 2)\nimport os; os.kill(os.getpid(), 9)", 0.0, "crashed", 1.0),
        (READ + "print(n * 2)\nif n == 2: exit(3)", 2 / 3, "crashed", 1 / 3),
        (READ + "print(n * 2, flush=True)\nwhile n == 30: pass", 2 / 3, "timed_out", 1 / 3),
        (READ + "while True: print(str(n * 2) * 9999)", 0.0, "wrong", 1.0),
        ("print('3 of 3 tests passed')\nprint('{\"score\": 1.0}')", 0.0, "wrong", 1.0),
        ("import os; os._exit(0)", 0.0, "wrong", 1.0),
    ],
)
def test_each_test_runs_alone_and_says_what_it_came_to(program, score, part, share, runner, box) -> None:
    verdict = runner.run(verify(TASK, program, box))
    assert verdict.score == pytest.approx(score) and verdict.parts[part] == pytest.approx(share)


def test_all_or_nothing_stops_after_a_failure(runner, box) -> None:
    task = StdioTask(tests=TASK.tests, is_all_or_nothing=True, num_at_once=1)
    assert runner.run(verify(task, READ + "print(n * 2)", box)).score == 1
    verdict = runner.run(verify(task, READ + "print(n + 1 if n == 1 else 0)", box))
    assert verdict.score == 0 and verdict.parts["passed"] == pytest.approx(1 / 3)
    assert verdict.parts["not_run"] == pytest.approx(1 / 3) and verdict.evidence.startswith("1 of 3")


def test_a_task_without_tests_is_not_solved_by_anybody(runner, box) -> None:
    assert runner.run(verify(StdioTask(tests=()), "", box)).kind == "unscorable"


def test_a_failing_sandbox_is_no_score_and_leaves_nothing_running() -> None:
    ended = []

    class BreakingBox:
        isolation = "none"

        async def run(self, job):
            if job.stdin == b"2\n":
                raise SandboxError("no room")
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(job.stdin)

        async def stop(self) -> None: ...

    with pytest.raises(SandboxError, match="no room"):
        asyncio.run(verify(TASK, "", BreakingBox()))
    assert b"1\n" in ended


@pytest.mark.parametrize(
    ("printed", "expected", "checker", "right"),
    [
        (b"1 2\n3", b"1\n2 3\n\n", "tokens", True),
        (b"1 2", b"1 2 3", "tokens", False),
        (b"1 2 3", b"1 2", "tokens", False),
        (b"0.33333333", b"0.333333331", "tokens", True),
        (b"0.334", b"0.333", "tokens", False),
        (b"1", b"1.0", "tokens", True),
        (b"1.0", b"1", "tokens", False),
        (b"01", b"1", "tokens", False),
        (b"1e3", b"1000.0", "tokens", True),
        (b"nan", b"1.0", "tokens", False),
        (b"inf", b"1.0e999", "tokens", False),
        (b"1_0.0", b"10.0", "tokens", False),
        (b"9" * 1_000_000, b"1.0", "tokens", False),
        (b"100000000000000000001", b"100000000000000000000", "tokens", False),
        ("٣".encode(), b"3.0", "tokens", False),
        (b"\xff", b"1", "tokens", False),
        (b"yes No", b"YES\nNO", "words", True),
        (b"yes", b"YES", "tokens", False),
        (b"a b  \n\n", b"a b", "lines", True),
        (b"a  b", b"a b", "lines", False),
        (b" a", b"a", "lines", False),
        (b"b\na\n", b"a\nb", "unordered_lines", True),
        (b"b\na\na\n", b"a\nb\nb", "unordered_lines", False),
        (b"a\n", b"a", "exact", False),
        (b"a\n", b"a\n", "exact", True),
    ],
)
def test_outputs_are_compared_by_the_checkers_rule(printed, expected, checker, right) -> None:
    assert is_right(printed, expected, checker) is right
