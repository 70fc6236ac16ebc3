"""Programs that read stdin and write stdout, one fresh box a test; what they print is compared outside.

Checkers: `tokens` (split at white space; a token is compared as it is written, except that where the expected one has
a point or an exponent a number within the tolerance will do), `words` (tokens, in any case of letters), `lines` (white
space at the ends of lines and empty lines at the end ignored), `unordered_lines` (the same, in any order), `exact`.

Decisions: a test passes if the program ends by itself with exit code 0 and its output is right; the expected output
never enters the box. A program that crashes, hangs or floods fails that test; `SandboxError` propagates. Score = share
of tests passed, or with `is_all_or_nothing` 1 exactly if all are; then the first failure ends it.
NaN, infinities, hexadecimal and digits of other scripts are no numbers.
Covered: Python programs. Not covered: other languages, interactive problems, checkers that a task brings along,
inputs beyond the given ones (a task needs enough that its prompt does not show).
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from burnish.core.types import Verdict
from burnish.rewards.many_jobs import run_all
from burnish.sandbox import Box, Job, Outcome, ResourceLimits

Checker = Literal["tokens", "words", "lines", "unordered_lines", "exact"]
Result = Literal["passed", "wrong", "crashed", "timed_out", "not_run"]

RESULTS: tuple[Result, ...] = ("passed", "wrong", "crashed", "timed_out")
# A hang spends its processor time; the wall is far off, so that a busy machine never looks like a hang.
LIMITS = ResourceLimits(wall_s=30.0, cpu_s=2.0, memory_mb=256, num_processes=8, output_bytes=1 << 20)
LONGEST_NUMBER = 400
FLOAT = re.compile(rb"[+-]?(?:\d++\.\d*+|\.\d++)(?:[eE][+-]?\d{1,4})?|[+-]?\d++[eE][+-]?\d{1,4}")
NUMBER = re.compile(rb"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d{1,4})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioTest:
    """What a program is given, and what it must print."""

    stdin: bytes
    expected: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioTask:
    """The tests that judge a program; `limits` are for each one."""

    tests: tuple[StdioTest, ...]
    checker: Checker = "tokens"
    tolerance: float = 1e-6
    """Absolute and relative, for tokens that are expected to be floats."""
    is_all_or_nothing: bool = False
    num_at_once: int = 4
    limits: ResourceLimits = LIMITS
    preload: tuple[str, ...] = ()


async def verify(task: StdioTask, program: str, box: Box) -> Verdict:
    """Run the program on every test and compare what it printed."""
    results: list[Result] = []
    evidence = ""
    num_a_turn = task.num_at_once if task.is_all_or_nothing else max(1, len(task.tests))
    for start in range(0, len(task.tests), num_a_turn):
        tests = task.tests[start : start + num_a_turn]
        jobs = [Job(source=program, stdin=test.stdin, preload=task.preload, limits=task.limits) for test in tests]
        outcomes = await run_all(box, jobs, task.num_at_once)
        for test, outcome in zip(tests, outcomes, strict=True):
            results.append(result_of(outcome, test.expected, task))
            if results[-1] != "passed" and not evidence:
                evidence = f"test {len(results)}: {_why(outcome, test.expected, results[-1])}"
        if task.is_all_or_nothing and evidence:
            break
    return _verdict(task, results, evidence)


def _verdict(task: StdioTask, results: Sequence[Result], evidence: str) -> Verdict:
    num_tests, counts = len(task.tests), Counter(results)
    if not num_tests:
        return Verdict.unscorable("the task has no test")
    shares = {str(result): counts[result] / num_tests for result in RESULTS}
    score = float(counts["passed"] == num_tests) if task.is_all_or_nothing else shares["passed"]
    not_run = {"not_run": 1 - len(results) / num_tests} if len(results) < num_tests else {}
    notes = [f"{counts['passed']} of {num_tests} tests passed", *([evidence] if evidence else [])]
    return Verdict.scored(score, shares | not_run, "; ".join(notes))


def result_of(outcome: Outcome, expected: bytes, task: StdioTask) -> Result:
    """What one test came to."""
    if outcome.ending == "timed_out":
        return "timed_out"
    if outcome.ending == "over_output":
        return "wrong"
    if outcome.ending != "exited" or outcome.exit_code != 0:
        return "crashed"
    return "passed" if is_right(outcome.stdout, expected, task.checker, task.tolerance) else "wrong"


def is_right(printed: bytes, expected: bytes, checker: Checker, tolerance: float = 1e-6) -> bool:
    """Compare an output by the checker's rule."""
    match checker:
        case "exact":
            return printed == expected
        case "lines":
            return _lines(printed) == _lines(expected)
        case "unordered_lines":
            return sorted(_lines(printed)) == sorted(_lines(expected))
        case "words":
            return printed.lower().split() == expected.lower().split()
        case "tokens":
            tokens, wanted = printed.split(), expected.split()
            return len(tokens) == len(wanted) and all(
                _is_right_token(token, want, tolerance) for token, want in zip(tokens, wanted, strict=True)
            )


def _is_right_token(token: bytes, wanted: bytes, tolerance: float) -> bool:
    if token == wanted:
        return True
    if not FLOAT.fullmatch(wanted) or len(token) > LONGEST_NUMBER or not NUMBER.fullmatch(token):
        return False
    return math.isclose(float(token), float(wanted), rel_tol=tolerance, abs_tol=tolerance)


def _lines(text: bytes) -> list[bytes]:
    lines = [line.rstrip() for line in text.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _why(outcome: Outcome, expected: bytes, result: Result) -> str:
    if result != "wrong":
        last = outcome.stderr.rstrip().rpartition(b"\n")[2]
        ended = outcome.ending if outcome.ending != "exited" else f"exit code {outcome.exit_code}"
        return f"{result} ({ended}{', ' + _brief(last) if last else ''})"
    if outcome.ending == "over_output":
        return "printed more than it may"
    return f"printed {_brief(outcome.stdout)}, expected {_brief(expected)}"


def _brief(text: bytes) -> str:
    shown = ascii(text[:100].decode("utf-8", "replace"))
    return shown if len(shown) <= 60 else shown[:57] + "..."
