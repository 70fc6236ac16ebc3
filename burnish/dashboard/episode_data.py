"""What a report shows of episodes: one task as it was worked on before training and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """What the policy said, and what the world answered."""

    said: str
    answered: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeView:
    """One episode; `score` None if it was not scored."""

    label: str
    turns: Sequence[TurnView]
    score: float | None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePair:
    """One task, and two episodes of it."""

    domain: str
    task: str
    before: EpisodeView
    after: EpisodeView
