"""The domain's calls as a task of `rewards.code_value`, which judges them.

Decisions: all calls share one process, in their order: the cheapest way, and a function that hangs or kills
its process deserves no more care. Types are exact, floats to 1e-9 relative.
"""

from collections.abc import Sequence

from burnish.core.types import Json, Verdict
from burnish.rewards.code_value import Case, CodeTask, judge_outcome
from burnish.rewards.value_compare import is_same
from burnish.sandbox import Outcome, ResourceLimits

__all__ = ["JOB_LIMITS", "code_task", "is_same", "judge"]

# A hang spends its processor time; the wall is far off, so that a busy machine never looks like a hang.
JOB_LIMITS = ResourceLimits(wall_s=15.0, cpu_s=1.0, memory_mb=256, num_processes=8, output_bytes=1 << 18)


def code_task(function: str, calls: Sequence[Json], expected: Sequence[Json]) -> CodeTask:
    """The calls and their values as cases."""
    cases: list[Case] = []
    for arguments, value in zip(calls, expected, strict=True):
        assert isinstance(arguments, list)
        cases.append(Case(arguments=arguments, expected=value))
    return CodeTask(function=function, cases=tuple(cases), call_s=None, keeps_order=True, limits=JOB_LIMITS)


def judge(
    outcome: Outcome, ids: Sequence[str], function: str, calls: Sequence[Json], expected: Sequence[Json]
) -> Verdict:
    """Judge what a job sent back under `ids`: score = share of calls whose value is the expected one."""
    asked = {call_id: number for number, call_id in enumerate(ids)}
    return judge_outcome(code_task(function, calls, expected), asked, outcome)
