"""How a domain stands: what its last groups showed, as a record that is made anew by each of them.

A `Seen` is one judged group; the ledger keeps them, step by step, so that a resumed run folds the same records into
the same standings. Groups of which nothing was scored show nothing.

Decision: `slip` compares the last groups with the best block of as many before them, less one standard error of the
difference, so that the best of several noisy means is not taken for what was there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, pvariance
from typing import Literal, Self, cast

from burnish.core.types import Json

Phase = Literal["waiting", "active", "solved", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one group showed. `faults` counts the failed replies in which a part of the verdict was 0."""

    domain: str
    mean: float
    variance: float
    trained: bool
    num_replies: int
    places: tuple[str, ...] = ()
    """What its task shares with others: its source and its tags."""
    faults: Mapping[str, int] = field(default_factory=dict[str, int])

    def to_json(self) -> Json:
        """Short, because the ledger keeps one a group."""
        return [
            self.domain, self.mean, self.variance, self.trained, self.num_replies, list(self.places), dict(self.faults)
        ]  # fmt: skip

    @classmethod
    def from_json(cls, row: Json) -> Self:
        """The inverse of `to_json`."""
        domain, mean, variance, trained, num_replies, places, faults = cast(
            tuple[str, float, float, bool, int, list[str], dict[str, int]], row
        )
        return cls(
            domain=domain, mean=mean, variance=variance, trained=trained, num_replies=num_replies,
            places=tuple(places), faults=faults,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A domain's phase, and its last groups, oldest first."""

    phase: Phase = "waiting"
    means: tuple[float, ...] = ()
    variances: tuple[float, ...] = ()
    num_groups: int = 0
    num_in_phase: int = 0
    best: float = 0.0
    """The highest mean of a block of groups; blocks do not overlap."""

    def after(self, group: Seen, window: int, block: int) -> Self:
        """One group more; so many are remembered, and so many make a block."""
        means = (*self.means, group.mean)[-window:]
        is_whole = (self.num_groups + 1) % block == 0
        return replace(
            self, means=means, variances=(*self.variances, group.variance)[-window:], num_groups=self.num_groups + 1,
            num_in_phase=self.num_in_phase + 1, best=max(self.best, fmean(means[-block:])) if is_whole else self.best,
        )  # fmt: skip

    def moved(self, phase: Phase) -> Self:
        """Into another phase, which begins to count its groups anew."""
        return replace(self, phase=phase, num_in_phase=0)

    def reward(self, over: int) -> float | None:
        """The mean reward of the last so many groups; None while there are fewer."""
        return fmean(self.means[-over:]) if len(self.means) >= over else None

    def signal(self, over: int) -> float | None:
        """The share of the last so many groups whose members scored differently; None while there are fewer."""
        last = self.variances[-over:]
        return (over - last.count(0.0)) / over if len(last) == over else None

    def smooth_signal(self, over: int) -> float:
        """The same by Laplace's rule, which has an answer from the start: one in two."""
        last = self.variances[-over:]
        return (len(last) - last.count(0.0) + 1) / (len(last) + 2)

    def spread(self, over: int) -> float:
        """The mean standard deviation of the last groups' rewards, and of one group before them that is as wide as can
        be."""
        last = self.variances[-over:]
        return (sum(map(math.sqrt, last)) + 0.5) / (len(last) + 1)

    def slip(self, over: int) -> float:
        """How far the last groups' mean reward lies below the best, beyond one standard error of the difference."""
        last: Sequence[float] = self.means[-over:]
        if len(last) < over or not self.best:
            return 0.0
        return max(0.0, self.best - fmean(last) - math.sqrt(2 * pvariance(last) / len(last)))
