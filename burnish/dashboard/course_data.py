"""What a report shows of the course of a stage: plain values."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCourse:
    """One domain: how it ended, and its shares at the beginning and at the end."""

    name: str
    phase: str
    num_groups: int
    reward: float | None
    """The mean of its last groups; None if it had none."""
    first_share: float
    last_share: float
    factor: float
    """By what gates have multiplied its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One gate: its decision, and a sentence of each comparison."""

    step: int
    kind: str
    sentences: Sequence[tuple[str, str]]
    why: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionView:
    """One target; `rate_after` is None where no correction came after it."""

    step: int
    domain: str
    place: str
    part: str
    weight: float
    rate: float
    num_replies: int
    rate_after: float | None = None
    num_replies_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseView:
    """One stage. `changes` are (step, why) of each change of shares."""

    stage: str
    domains: Sequence[DomainCourse]
    changes: Sequence[tuple[int, str]]
    gates: Sequence[GateView] = ()
    corrections: Sequence[CorrectionView] = ()
