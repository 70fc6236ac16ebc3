"""The table of verdicts: what they cost and came to, domain by domain, over the whole run.

Decisions: counts and costs are sums over steps and evaluations; times are means over steps, weighted by how many
verdicts were paid for. Shares are of all verdicts handed out; flaky and audit shares are of what was looked at twice.
"""

from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element

from burnish.dashboard import words
from burnish.dashboard.node import Child, node
from burnish.dashboard.tables import table

PREFIX = "verify/"
TIMES = ("p50_ms", "p95_ms")


def verification_of(steps: Iterable[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Add up what the steps' metrics say of verdicts: {domain: {name: value}}."""
    found: dict[str, dict[str, float]] = {}
    for step in steps:
        for metric, value in step.items():
            if metric.startswith(PREFIX):
                domain, _, name = metric.removeprefix(PREFIX).rpartition("/")
                weight = step.get(f"{PREFIX}{domain}/num_paid", 0.0) if name in TIMES else 1.0
                counts = found.setdefault(domain, {})
                counts[name] = counts.get(name, 0.0) + value * weight
    for counts in found.values():
        for name in TIMES:
            counts[name] = counts.get(name, 0.0) / max(1.0, counts.get("num_paid", 0.0))
    return found


def verification_table(domains: Mapping[str, Mapping[str, float]]) -> Element:
    """One row a domain."""
    head = "verdicts|from cache|joined|cost|median|95 %|undecided|timeouts|machinery|tampered|flaky|audits differ"
    heads: list[Child] = ["domain", *[node("th", word, scope="col", class_="number") for word in head.split("|")]]
    rows = [[node("th", name, scope="row"), *map(_cell, _texts(counts))] for name, counts in sorted(domains.items())]
    return table("Verdicts over the whole run: shares of all, cost and times of those that were paid for.", heads, rows)


def _texts(counts: Mapping[str, float]) -> list[str]:
    def share(name: str, of: str = "num_verdicts") -> str:
        return words.share(counts.get(name, 0.0), counts.get(of, 0.0))

    shares = ["num_undecided", "num_timeouts", "num_infrastructure_errors", "num_tampered"]
    return [
        words.count(int(counts.get("num_verdicts", 0))),
        share("num_hits"),
        share("num_joined"),
        words.seconds(counts.get("wall_ms", 0.0) / 1000),
        f"{counts.get('p50_ms', 0.0):.1f} ms",
        f"{counts.get('p95_ms', 0.0):.1f} ms",
        *map(share, shares),
        share("num_flaky", "num_checked_again"),
        share("num_audits_disagree", "num_audited"),
    ]


def _cell(text: str) -> Element:
    return node("td", text, class_="number")
