"""What a report shows: plain values that stages fill in, and the summary that machines read.

Not covered: choosing. A report shows every trajectory it is given; give it a few dozen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from burnish.core.interval import Interval
from burnish.dashboard.course_data import CourseView
from burnish.dashboard.episode_data import EpisodePair

Outcome = Literal["promoted", "held", "ungated"]
Curve = Sequence[tuple[float, float]]
"""(step, value) pairs, steps rising."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainResult:
    """One domain before and after.

    `checkpoints` are evaluations in between, in order (`{"after SFT": ...}`). `difference` is the mean paired
    change. `adjusted_p` is `paired_p` after correction for the number of domains. `reason` is the gate's
    sentence. `not_scored_*` counts verdicts that gave no score, by kind.
    """

    before: Interval
    after: Interval
    paired_p: float
    difference: Interval | None = None
    adjusted_p: float | None = None
    checkpoints: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    not_scored_before: Mapping[str, int] = field(default_factory=dict[str, int])
    not_scored_after: Mapping[str, int] = field(default_factory=dict[str, int])
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryView:
    """One attempt, as text. `tokens` are (text, was sampled, log-probability), prompt first.

    `prompt` is the task as it was asked, `reply` the text that was judged, `score` None if it was not scored.
    """

    domain: str
    stage: str
    prompt: str
    tokens: Sequence[tuple[str, bool, float]]
    reply: str
    score: float | None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """A whole run. `curves` is {chart title: {series name: curve}}; the first chart is drawn large."""

    name: str
    outcome: Outcome
    seed: int
    wall_s: float
    peak_rss_mb: float
    tokens_sampled: int
    tokens_trained: int
    domains: Mapping[str, DomainResult]
    curves: Mapping[str, Mapping[str, Curve]] = field(default_factory=dict[str, Mapping[str, Curve]])
    interactions: Mapping[str, Curve] = field(default_factory=dict[str, Curve])
    """By domain: rewards over the interactions with environments that they took."""
    trajectories: Sequence[TrajectoryView] = ()
    episodes: Sequence[EpisodePair] = ()
    failures: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    verification: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """What verdicts cost and came to, by domain, as `dashboard.verification` adds it up."""
    courses: Sequence[CourseView] = ()
    """Of each stage whose shares could change."""
    timing_s: Mapping[str, float] = field(default_factory=dict[str, float])
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    recipe: str = ""


def summary_json(data: ReportData) -> dict[str, object]:
    """The report's numbers as a JSON object: `domains`, costs, seed, outcome, and what was not scored."""
    return {
        "domains": {name: _domain_json(domain) for name, domain in data.domains.items()},
        "wall_s": data.wall_s,
        "peak_rss_mb": data.peak_rss_mb,
        "tokens_sampled": data.tokens_sampled,
        "tokens_trained": data.tokens_trained,
        "seed": data.seed,
        "outcome": data.outcome,
        "not_scored": {
            name: {"before": dict(domain.not_scored_before), "after": dict(domain.not_scored_after)}
            for name, domain in data.domains.items()
        },
        "checkpoints": {
            name: {label: interval._asdict() for label, interval in domain.checkpoints.items()}
            for name, domain in data.domains.items()
        },
        "reasons": {name: domain.reason for name, domain in data.domains.items()},
    }


def _domain_json(domain: DomainResult) -> dict[str, object]:
    return {"before": domain.before._asdict(), "after": domain.after._asdict(), "paired_p": domain.paired_p}
