"""The gate: may the trained model replace the one it came from?

`compare` pairs two evaluations by task; `gate` holds the run if a domain got significantly worse
(p below alpha after Holm's adjustment over the domains, and a lower mean), or if a domain cannot be
judged: fewer than `min_paired_share` of its tasks were scored both times. The second rule is there
because unscored replies leave the mean, so that a model which breaks its verifier would look better.

Not covered: a gain is not required. A run that changes nothing is promoted; the report shows that it did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from burnish.core.interval import Interval
from burnish.evals.records import EvalResult, by_report_name, not_scored, summarise
from burnish.evals.statistics import difference, holm, paired_p


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One domain before and after. `difference` is over the tasks that were scored both times; n=0 if none was."""

    before: Interval
    after: Interval
    difference: Interval
    paired_p: float
    num_tasks: int
    not_scored_before: Mapping[str, int]
    not_scored_after: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Promote or hold, with a sentence and the adjusted p of each domain."""

    kind: Literal["promote", "hold"]
    reasons: Mapping[str, str]
    adjusted_p: Mapping[str, float]


def compare(before: Sequence[EvalResult], after: Sequence[EvalResult]) -> dict[str, Comparison]:
    """Compare two evaluations, domain by domain, in the order of `before`."""
    return {name: _compare_domain(before, after, name) for name in by_report_name([*before, *after])}


def gate(comparisons: Mapping[str, Comparison], *, alpha: float = 0.05, min_paired_share: float = 0.9) -> Decision:
    """Hold if any domain is significantly worse or cannot be judged."""
    adjusted = dict(zip(comparisons, holm([c.paired_p for c in comparisons.values()]), strict=True))
    reasons: dict[str, str] = {}
    is_held = not comparisons
    for name, comparison in comparisons.items():
        can_judge = comparison.difference.n >= min_paired_share * comparison.num_tasks
        is_clear = adjusted[name] < alpha
        is_held |= not can_judge or (is_clear and comparison.difference.mean < 0)
        reasons[name] = _reason(comparison, adjusted[name], can_judge, is_clear)
    return Decision(kind="hold" if is_held else "promote", reasons=reasons, adjusted_p=adjusted)


def _reason(comparison: Comparison, p: float, can_judge: bool, is_clear: bool) -> str:
    change = comparison.difference
    if not can_judge:
        return f"cannot be judged: {change.n} of {comparison.num_tasks} tasks were scored before and after"
    word = "no clear change" if not is_clear else "significantly worse" if change.mean < 0 else "significantly better"
    return f"{word}: {change.mean:+.3f} on {change.n} tasks, p = {p:.2g} after Holm"


def _compare_domain(before: Sequence[EvalResult], after: Sequence[EvalResult], name: str) -> Comparison:
    old, new = _by_task(before, name), _by_task(after, name)
    old_scores, new_scores = _scores(old), _scores(new)
    shared = [task_id for task_id in old_scores if task_id in new_scores]
    paired_before = [old_scores[task_id] for task_id in shared]
    paired_after = [new_scores[task_id] for task_id in shared]
    clusters = [old[task_id].cluster for task_id in shared]
    no_score = Interval(mean=0.0, low=0.0, high=1.0, n=0)
    no_change = Interval(mean=0.0, low=-1.0, high=1.0, n=0)
    return Comparison(
        before=summarise(list(old.values())).get(name, no_score),
        after=summarise(list(new.values())).get(name, no_score),
        difference=difference(paired_before, paired_after, clusters) if shared else no_change,
        paired_p=paired_p(paired_before, paired_after, clusters),
        num_tasks=len(old.keys() | new.keys()),
        not_scored_before=not_scored(list(old.values())).get(name, {}),
        not_scored_after=not_scored(list(new.values())).get(name, {}),
    )


def _scores(table: Mapping[str, EvalResult]) -> dict[str, float]:
    return {task_id: result.score for task_id, result in table.items() if result.score is not None}


def _by_task(results: Sequence[EvalResult], name: str) -> dict[str, EvalResult]:
    table: dict[str, EvalResult] = {}
    for result in results:
        if result.report_name != name:
            continue
        if result.task_id in table:
            raise ValueError(f"task {result.task_id!r} stands twice in one evaluation; average its samples first")
        table[result.task_id] = result
    return table
