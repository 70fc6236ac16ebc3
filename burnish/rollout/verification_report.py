"""What verdicts cost and came to, domain by domain: counted as they are given, shown per step and in the report."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from burnish.core.types import Verdict

MOST_TIMES = 10_000
NAMES = {
    "unscorable": "num_undecided",
    "timeout": "num_timeouts",
    "infrastructure_error": "num_infrastructure_errors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReport:
    """Counts of one domain. `wall_ms`, `p50_ms` and `p95_ms` are of the verdicts that were paid for."""

    num_verdicts: int = 0
    num_paid: int = 0
    num_hits: int = 0
    num_joined: int = 0
    """Asked for while the same answer was being judged: paid once."""
    wall_ms: float = 0.0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    num_undecided: int = 0
    num_timeouts: int = 0
    num_infrastructure_errors: int = 0
    num_tampered: int = 0
    num_checked_again: int = 0
    num_flaky: int = 0
    num_audited: int = 0
    num_audits_disagree: int = 0


@dataclass(slots=True)
class Tally:
    """The counts of one domain while they grow."""

    counts: Counter[str] = field(default_factory=Counter[str])
    times_ms: deque[float] = field(default_factory=lambda: deque[float](maxlen=MOST_TIMES))
    wall_ms: float = 0.0

    def given(self, verdict: Verdict, how: str) -> None:
        """Count a verdict as it is handed out; `how` is `num_paid`, `num_hits` or `num_joined`."""
        self.counts.update(["num_verdicts", how])
        if verdict.kind in NAMES:
            self.counts[NAMES[verdict.kind]] += 1
        if verdict.parts.get("tampered", 0.0) > 0:
            self.counts["num_tampered"] += 1

    def paid(self, wall_s: float) -> None:
        """Count what one verdict cost, time in the queue aside."""
        self.times_ms.append(wall_s * 1000)
        self.wall_ms += wall_s * 1000

    def report(self) -> DomainReport:
        """The counts so far."""
        times = sorted(self.times_ms)
        return DomainReport(
            **self.counts, wall_ms=self.wall_ms, p50_ms=_quantile(times, 0.5), p95_ms=_quantile(times, 0.95)
        )


def as_metrics(reports: Mapping[str, DomainReport]) -> dict[str, float]:
    """`verify/DOMAIN/NAME` for each number; zeros are left out, but for the number of verdicts."""
    return {
        f"verify/{domain}/{name}": float(value)
        for domain, report in sorted(reports.items())
        for name, value in asdict(report).items()
        if value or name == "num_verdicts"
    }


def _quantile(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0
