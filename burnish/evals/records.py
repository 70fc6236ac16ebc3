"""The record of one evaluated task, and what a set of them says for each domain.

Only `scored` results enter a mean. The others are counted by kind and shown, since a domain whose
tasks stop being scored may look better than it is.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.interval import Interval
from burnish.core.types import StopReason, VerdictKind
from burnish.evals.statistics import interval


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """What one reply to one held-out task was worth.

    `report_name` is the row of the report it counts for; `source` names what tasks share (empty: nothing); `sample`
    numbers the replies to one task.
    """

    task_id: str
    report_name: str
    source: str
    score: float | None
    kind: VerdictKind
    reply: str
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    stop_reason: StopReason = "eos"
    sample: int = 0
    num_tokens: int = 0
    evidence: str = ""

    def __post_init__(self) -> None:
        if (self.kind == "scored") != (self.score is not None):
            raise ValueError(f"{self.task_id}: a score exactly if scored; got {self.kind}, {self.score!r}")

    @property
    def cluster(self) -> str:
        """What the task shares with others; a task without a source stands alone."""
        return self.source or self.task_id


def by_report_name(results: Iterable[EvalResult]) -> dict[str, list[EvalResult]]:
    """Group results by the row of the report, in the order of their first appearance."""
    groups: dict[str, list[EvalResult]] = {}
    for result in results:
        groups.setdefault(result.report_name, []).append(result)
    return groups


def summarise(results: Sequence[EvalResult]) -> dict[str, Interval]:
    """Mean and 95 % interval of each domain's scored tasks; a domain without any has no entry."""
    summary: dict[str, Interval] = {}
    for name, group in by_report_name(results).items():
        scored = [(r.score, r.cluster) for r in group if r.score is not None]
        if scored:
            summary[name] = interval([score for score, _ in scored], [cluster for _, cluster in scored])
    return summary


def not_scored(results: Sequence[EvalResult]) -> dict[str, dict[str, int]]:
    """How many results of each domain have no score, by kind of verdict; domains without any are listed too."""
    groups = by_report_name(results)
    return {name: dict(Counter(r.kind for r in group if r.kind != "scored")) for name, group in groups.items()}


def failures(results: Sequence[EvalResult]) -> dict[str, dict[str, int]]:
    """Count what went wrong in each domain: cut off, not scored, and the parts that fell short of 1."""
    return {name: dict(Counter(_faults(group)).most_common()) for name, group in by_report_name(results).items()}


def _faults(results: Sequence[EvalResult]) -> Iterable[str]:
    for result in results:
        if result.stop_reason == "length":
            yield "stop: length"
        if result.kind != "scored":
            yield f"verdict: {result.kind}"
        yield from (f"part: {part}" for part, value in result.parts.items() if value < 1)
