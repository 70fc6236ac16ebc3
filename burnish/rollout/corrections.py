"""Corrections: where replies fail in the same way more often than elsewhere, tasks of that kind are drawn more often.

A pattern is a domain, a place in it (a source or a tag of its tasks), and a part of the verdict that was 0 in failed
replies. Its rate is (k + 1) / (n + 2), k failing replies of n (Laplace). A pattern becomes a target where it has failed
at least `least_failures` times, at `MIN_RATIO` times the rate of the domain's other tasks or more; tasks of the place
are then drawn that ratio as often, at most `most`. Each correction looks at what came since the last, so that the rate
before and the rate after are of different replies.

Covered: any verdict with parts. Not covered: domains whose tasks have neither source nor tags, which have no places;
tests of significance, for which `least_failures` must do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from pydantic import Field

from burnish.core.config import Strict
from burnish.core.types import Json
from burnish.rollout.standing import Seen

MIN_RATIO: Final = 1.5
Targets = Mapping[str, Mapping[str, float]]
"""By domain: by place: how many times as often its tasks are drawn."""


class CorrectionsConfig(Strict):
    """What failed replies change about which tasks are drawn."""

    every: int = Field(default=20, ge=1)
    """Steps between corrections."""
    least_failures: int = Field(default=8, ge=1)
    most: float = Field(default=3.0, gt=1, le=10)
    """The most that tasks of a place are favoured."""


class Pattern(NamedTuple):
    """One way to fail."""

    domain: str
    place: str
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Replies, and failing ones, by domain and place; the place "" is the whole domain."""

    replies: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    failing: Mapping[Pattern, int] = field(default_factory=dict[Pattern, int])

    def after(self, groups: Iterable[Seen]) -> Self:
        """With these groups counted."""
        replies, failing = dict(self.replies), dict(self.failing)
        for group in groups:
            for place in ("", *group.places):
                key = (group.domain, place)
                replies[key] = replies.get(key, 0) + group.num_replies
                for part, num in group.faults.items():
                    pattern = Pattern(group.domain, place, part)
                    failing[pattern] = failing.get(pattern, 0) + num
        return type(self)(replies=replies, failing=failing)

    def rate(self, pattern: Pattern) -> float:
        """How often replies fail so."""
        return _rate(self.failing.get(pattern, 0), self.replies.get((pattern.domain, pattern.place), 0))

    def rate_elsewhere(self, pattern: Pattern) -> float:
        """How often replies to the domain's other tasks fail in the same part."""
        whole = Pattern(pattern.domain, "", pattern.part)
        failing = self.failing.get(whole, 0) - self.failing.get(pattern, 0)
        replies = self.replies.get((pattern.domain, ""), 0) - self.replies.get((pattern.domain, pattern.place), 0)
        return _rate(failing, replies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A pattern that is corrected: its rate before, of so many replies, and the weight of its place."""

    pattern: Pattern
    rate: float
    num_replies: int
    weight: float

    def to_json(self) -> dict[str, Json]:
        """Plain values."""
        return {
            "domain": self.pattern.domain, "place": self.pattern.place, "part": self.pattern.part, "rate": self.rate,
            "num_replies": self.num_replies, "weight": self.weight,
        }  # fmt: skip


def find_targets(tally: Tally, config: CorrectionsConfig) -> list[Target]:
    """What is worth a correction, most favoured first."""
    found: list[Target] = []
    for pattern, num in tally.failing.items():
        if not pattern.place or num < config.least_failures:
            continue
        rate = tally.rate(pattern)
        ratio = rate / tally.rate_elsewhere(pattern)
        if ratio >= MIN_RATIO:
            num_replies = tally.replies[pattern.domain, pattern.place]
            found.append(Target(pattern=pattern, rate=rate, num_replies=num_replies, weight=min(config.most, ratio)))
    return sorted(found, key=lambda target: (-target.weight, target.pattern))


def weights_of(targets: Sequence[Target]) -> Targets:
    """The weights of the places; the heaviest pattern of a place counts."""
    weights: dict[str, dict[str, float]] = {}
    for target in targets:
        places = weights.setdefault(target.pattern.domain, {})
        places[target.pattern.place] = max(target.weight, places.get(target.pattern.place, 1.0))
    return weights


def measured(targets: Sequence[Target], tally: Tally) -> list[dict[str, Json]]:
    """What became of the targets: their rates before, and since."""
    return [
        {
            **target.to_json(), "rate_after": tally.rate(target.pattern),
            "num_replies_after": tally.replies.get((target.pattern.domain, target.pattern.place), 0),
        }
        for target in targets
    ]  # fmt: skip


def _rate(num: int, of: int) -> float:
    return (num + 1) / (of + 2)
