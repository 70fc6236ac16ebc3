"""Several replies a task: pass@k, pass^k, completion, and where the variance of a score comes from.

A task *succeeds* with a reply that scores 1. pass@k and pass^k are the unbiased estimators of `statistics`, averaged
over tasks; completion is pass@1, the share of replies that do all of a task. A task of which not all replies were
scored counts with those that were, and leaves pass@k where fewer than k are left.

Variance of a mean score over tasks (Miller, https://arxiv.org/abs/2411.00640, section 3.1): between tasks, and within
them divided by the replies of each; more replies make only the second smaller.

Parts of verdicts that mean the same in every domain have names (`MEASURES`); the others are means by their own name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance

from burnish.core.interval import Interval
from burnish.evals.records import EvalResult
from burnish.evals.statistics import interval, pass_at_k, pass_hat_k

MEASURES: Mapping[str, str] = {
    "step_success": "step success rate",
    "tool_call": "tool-call accuracy",
    "retained": "information retention",
    "refused": "refusals",
}
"""What parts of a verdict are called where they are measures of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variances:
    """Of a score: between tasks, and within a task over its replies."""

    between: float
    within: float


def by_task(results: Iterable[EvalResult]) -> dict[str, list[EvalResult]]:
    """Group replies by task, in the order of their first appearance."""
    groups: dict[str, list[EvalResult]] = {}
    for result in results:
        groups.setdefault(result.task_id, []).append(result)
    return groups


def averaged(results: Iterable[EvalResult]) -> list[EvalResult]:
    """One result a task: the mean score of its scored replies, and the means of their parts."""
    return [_average(group) for group in by_task(results).values()]


def _average(group: Sequence[EvalResult]) -> EvalResult:
    scored = [result for result in group if result.score is not None]
    if len(group) == 1 or not scored:
        return group[0]
    names = {name for result in scored for name in result.parts}
    parts = {name: fmean(r.parts[name] for r in scored if name in r.parts) for name in sorted(names)}
    return replace(scored[0], score=fmean(r.score for r in scored if r.score is not None), parts=parts)


def pass_rates(results: Iterable[EvalResult]) -> dict[str, float]:
    """pass@k and pass^k for k = 1, 2, 4, ... up to the replies a task; nothing where no task has a scored reply."""
    counts = [(len(scores), sum(score == 1 for score in scores)) for scores in _scores(results).values()]
    rates: dict[str, float] = {}
    k = 1
    while counts and k <= max(num for num, _ in counts):
        for sign, estimate in (("@", pass_at_k), ("^", pass_hat_k)):
            rates[f"pass{sign}{k}"] = _mean_over_tasks(counts, k, estimate)
        k *= 2
    return rates


def _mean_over_tasks(counts: Sequence[tuple[int, int]], k: int, estimate: Callable[[int, int, int], float]) -> float:
    return fmean(estimate(num, right, k) for num, right in counts if num >= k)


def variances(results: Iterable[EvalResult]) -> Variances | None:
    """Where a score's variance comes from; None below two tasks with two scored replies each."""
    scores = [group for group in _scores(results).values() if len(group) > 1]
    if len(scores) < 2:
        return None
    within = fmean(variance(group) for group in scores)
    of_means = variance([fmean(group) for group in scores])
    return Variances(between=max(0.0, of_means - within / fmean(len(group) for group in scores)), within=within)


def measures(results: Iterable[EvalResult]) -> dict[str, Interval]:
    """The mean of each part of the verdicts with its interval, over the tasks that have it."""
    found: dict[str, list[tuple[float, str]]] = {}
    for result in averaged(results):
        if result.score is not None:
            for name, value in result.parts.items():
                found.setdefault(MEASURES.get(name, name), []).append((value, result.cluster))
    return {
        name: interval([value for value, _ in rows], [cluster for _, cluster in rows])
        for name, rows in found.items()
        if all(0 <= value <= 1 for value, _ in rows)
    }


def _scores(results: Iterable[EvalResult]) -> dict[str, list[float]]:
    scores = {name: [r.score for r in group if r.score is not None] for name, group in by_task(results).items()}
    return {name: group for name, group in scores.items() if group}
