"""One gate of a guarded stage: is any suite worse by more than its margin? Promote, roll back, or hold.

A suite's tasks are looked at in a fixed order, some more at each look, until each comparison has an answer or there are
no more (`noninferiority.judge`, a test that holds however often one looks). One comparison fails: roll back, and no
suite is looked at further. All pass: promote. Otherwise hold, and say how many more tasks would answer.

Error: the alpha of a stage is split evenly over its gates and the comparisons of each (Bonferroni), since their number
is known beforehand. So the chance that a stage whose checkpoints are no worse than their references by more than the
margins ever rolls back is at most alpha, and so is the chance that it ever promotes one that is worse.

Decisions: `start` is what the stage began with, so that what is lost over all gates together stays below the margin;
`promoted` is the last promoted checkpoint, so that what was gained since the start is guarded too. Tasks that were not
scored both times make no pair; a pass needs pairs for `MIN_PAIRED` of the tasks, since a model that breaks its verifier
would otherwise look no worse.

Not covered: a suite's tasks are the same at each gate, and which checkpoint comes to the next depends on what the
gates before it answered. What leaks is one word of three a gate; a strict bound would need new tasks at each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from burnish.evals.noninferiority import Answer, judge
from burnish.evals.records import EvalResult
from burnish.evals.statistics import MIN_CLUSTERS

MIN_PAIRED: Final = 0.9

GateKind = Literal["promote", "hold", "roll_back"]


class Guarded(NamedTuple):
    """A suite: what each of its tasks shares with others, in order, and how much worse is still no worse."""

    name: str
    clusters: Sequence[str]
    margin: float

    @property
    def num_units(self) -> int:
        """How many sources it has, or tasks where those are the unit."""
        return len(set(self.clusters)) if _by_cluster(self.clusters) else len(self.clusters)

    def looks(self, at_least: int) -> list[int]:
        """After how many tasks one may look, with at least so many between; whole sources where they are the unit."""
        num = len(self.clusters)
        ends = range(1, num + 1)
        if _by_cluster(self.clusters):
            ends = [n for n in ends if n == num or self.clusters[n] != self.clusters[n - 1]][MIN_CLUSTERS - 1 :]
        points: list[int] = []
        for end in ends:
            if end - (points[-1] if points else 0) >= at_least or end == num:
                points.append(end)
        return points


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a gate found of one suite against one earlier checkpoint."""

    suite: str
    against: str
    margin: float
    alpha: float
    num_tasks: int
    num_paired: int
    before: float
    after: float
    answer: Answer

    @property
    def kind(self) -> Literal["pass", "fail", "inconclusive"]:
        """The answer, less a pass on too few pairs."""
        is_thin = self.num_paired < MIN_PAIRED * self.num_tasks
        return "inconclusive" if is_thin and self.answer.kind == "pass" else self.answer.kind

    @property
    def in_words(self) -> str:
        """One sentence with the numbers."""
        change = f"{self.answer.mean:+.3f} on {self.num_paired} tasks against {self.against}, margin {self.margin:g}"
        if self.kind != "inconclusive":
            return f"{'no worse' if self.kind == 'pass' else 'worse'}: {change}"
        if self.num_paired < MIN_PAIRED * self.num_tasks:
            return (
                f"inconclusive: {self.num_tasks - self.num_paired} of {self.num_tasks} tasks were not scored; {change}"
            )
        return f"inconclusive: needs about {self.answer.num_more} more; {change}"


class Verdict(NamedTuple):
    """What a gate decides, and from what."""

    kind: GateKind
    compared: list[Compared]

    @property
    def slipped(self) -> list[str]:
        """The suites that failed."""
        return list(dict.fromkeys(one.suite for one in self.compared if one.kind == "fail"))


def run_gate(
    suites: Sequence[Guarded], references: Mapping[str, Mapping[str, Sequence[EvalResult]]],
    take: Callable[[str, int], Sequence[EvalResult]], *, alpha: float, num_gates: int, num_against: int, at_least: int,
) -> Verdict:  # fmt: skip
    """Look until there is an answer.

    Args:
        suites: what is guarded, in the order in which it is looked at.
        references: by name of an earlier checkpoint, by suite: its results on all tasks, in their order.
        take: of a suite's name and a number: the candidate's results on that many first tasks.
        alpha: of the whole stage; its share is this gate's.
        num_gates: how many gates the stage has.
        num_against: how many references a gate has at most.
        at_least: how many tasks come between two looks.
    """
    share = alpha / (num_gates * len(suites) * num_against)
    found: list[Compared] = []
    for suite in suites:
        found += _look(suite, references, take, share, at_least)
        if any(one.kind == "fail" for one in found):
            return Verdict("roll_back", found)
    return Verdict("promote" if all(one.kind == "pass" for one in found) else "hold", found)


def _look(
    suite: Guarded, references: Mapping[str, Mapping[str, Sequence[EvalResult]]],
    take: Callable[[str, int], Sequence[EvalResult]], alpha: float, at_least: int,
) -> list[Compared]:  # fmt: skip
    found: list[Compared] = []
    for num in suite.looks(at_least):
        after = take(suite.name, num)
        found = [
            compare(suite, against, results[suite.name][:num], after, alpha=alpha)
            for against, results in references.items()
        ]
        kinds = {one.kind for one in found}
        if "fail" in kinds or kinds == {"pass"}:
            break
    return found


def compare(
    suite: Guarded, against: str, before: Sequence[EvalResult], after: Sequence[EvalResult], *, alpha: float
) -> Compared:
    """One look at one comparison."""
    pairs = [
        (old.score, new.score, cluster)
        for old, new, cluster in zip(before, after, suite.clusters[: len(after)], strict=True)
        if old.score is not None and new.score is not None
    ]
    old, new, clusters = (list(column) for column in zip(*pairs, strict=True)) if pairs else ([], [], [])
    shared = clusters if _by_cluster(suite.clusters) else ()
    answer = judge(old, new, shared, margin=suite.margin, alpha=alpha, num_planned=suite.num_units)
    return Compared(
        suite=suite.name, against=against, margin=suite.margin, alpha=alpha, num_tasks=len(after),
        num_paired=len(pairs), before=sum(old) / max(1, len(pairs)), after=sum(new) / max(1, len(pairs)), answer=answer,
    )  # fmt: skip


def _by_cluster(clusters: Sequence[str]) -> bool:
    return MIN_CLUSTERS <= len(set(clusters)) < len(clusters)
