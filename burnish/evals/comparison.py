"""Who is better where: two sets of evaluations, suite by suite, on the tasks that both answered.

A suite is compared as `gate.compare` compares a domain: exact McNemar for 0/1 tasks, else sign flips over sources or
tasks, with a bootstrap interval of the difference; several replies a task are averaged first. Holm's adjustment runs
over the suites that were compared. Results on other tasks or other draws (another `suite_hash`) are refused.

Power: with n independent paired differences of standard deviation s, a true difference of (z_0.975 + z_0.8) s /
sqrt(n) is found by 80 % of such comparisons; for 0/1 tasks s² is the share of tasks that differ, so that this is the
rule n = (1.96 + 0.84)² p_disc / delta². What is smaller than that and not found, may still be there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from burnish.core.errors import ConfigError
from burnish.evals.gate import Comparison, compare
from burnish.evals.records import EvalResult
from burnish.evals.runs import EvalRun
from burnish.evals.samples import averaged
from burnish.evals.statistics import Z_95, holm, unit_totals

Z_POWER = NormalDist().inv_cdf(0.8)
MOST_LIKELY = 0.5
"""Above this mean score a task counts as solved, where it is said which flipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A task that one model solves and the other does not."""

    task_id: str
    before: float
    after: float
    before_reply: str
    after_reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteComparison:
    """One suite, the first model against the second."""

    suite: str
    layer: str
    comparison: Comparison
    adjusted_p: float
    detectable: float
    """The smallest true difference that 80 % of such comparisons find at p < 0.05."""
    flips: tuple[Flip, ...]

    @property
    def better(self) -> str:
        """Which model is better beyond chance: `A`, `B`, or nobody (empty)."""
        if self.adjusted_p >= 0.05 or not self.comparison.difference.mean:
            return ""
        return "B" if self.comparison.difference.mean > 0 else "A"


def compare_runs(first: Mapping[str, EvalRun], second: Mapping[str, EvalRun]) -> list[SuiteComparison]:
    """Compare the suites that both were evaluated on; `ConfigError` where there is none, or they asked other things."""
    names = [name for name in first if name in second]
    if not names:
        raise ConfigError(
            f"no common suite: the first has {', '.join(first) or 'none'}, the second {', '.join(second) or 'none'}; "
            "evaluate both on one: `burnish eval A B --suite S`"
        )
    compared = [_compare(first[name], second[name]) for name in names]
    adjusted = holm([each.adjusted_p for each in compared])
    return [replace(each, adjusted_p=p) for each, p in zip(compared, adjusted, strict=True)]


def _compare(a: EvalRun, b: EvalRun) -> SuiteComparison:
    for what, one, other in (("suite_hash", a.suite_hash, b.suite_hash), ("harness", a.harness, b.harness)):
        if one != other:
            raise ConfigError(
                f"suite {a.suite!r}: the results of {a.model!r} and {b.model!r} have another {what} ({one[:12]} and "
                f"{other[:12]}): they answered other tasks, or were judged by other code; evaluate both again"
            )
    before, after = _under_one_name(a), _under_one_name(b)
    comparison = compare(before, after)[a.suite]
    return SuiteComparison(
        suite=a.suite, layer=a.layer, comparison=comparison, adjusted_p=comparison.paired_p,
        detectable=detectable(before, after), flips=tuple(flips(before, after)),
    )  # fmt: skip


def _under_one_name(run: EvalRun) -> list[EvalResult]:
    return [replace(result, report_name=run.suite) for result in averaged(run.results)]


def detectable(before: Sequence[EvalResult], after: Sequence[EvalResult]) -> float:
    """The smallest difference that 80 % of comparisons like this one find; 1 where nothing was paired."""
    pairs = _paired(before, after)
    if not pairs:
        return 1.0
    differences_N = np.asarray([(new.score or 0.0) - (old.score or 0.0) for old, new in pairs])
    sums_U, sizes_U = unit_totals(differences_N, [old.cluster for old, _ in pairs])
    if len(sums_U) < 2:
        return 1.0
    deviation = float(np.std(sums_U / sizes_U, ddof=1))
    return min(1.0, (Z_95 + Z_POWER) * deviation / math.sqrt(len(sums_U)))


def num_for(delta: float, discordant: float) -> int:
    """How many 0/1 tasks find a true difference `delta` in 80 % of comparisons, if that share of tasks differs."""
    return math.ceil((Z_95 + Z_POWER) ** 2 * discordant / delta**2)


def flips(before: Sequence[EvalResult], after: Sequence[EvalResult]) -> list[Flip]:
    """The tasks that only one of the two solves, those that were lost first."""
    found = [
        Flip(task_id=old.task_id, before=old.score, after=new.score, before_reply=old.reply, after_reply=new.reply)
        for old, new in _paired(before, after)
        if old.score is not None and new.score is not None
        if (old.score > MOST_LIKELY) != (new.score > MOST_LIKELY)
    ]
    return sorted(found, key=lambda flip: flip.after - flip.before)


def _paired(before: Sequence[EvalResult], after: Sequence[EvalResult]) -> list[tuple[EvalResult, EvalResult]]:
    """The tasks that were scored both times."""
    new = {result.task_id: result for result in after if result.score is not None}
    return [(old, new[old.task_id]) for old in before if old.score is not None and old.task_id in new]
