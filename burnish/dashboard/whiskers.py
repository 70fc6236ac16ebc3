"""Dot and whisker: each evaluation's mean and its 95 % interval, domain by domain, on one axis."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from burnish.core.interval import Interval
from burnish.dashboard.axes import Frame, Scale, grid_x, ticks
from burnish.dashboard.charts import CHARACTER_WIDTH
from burnish.dashboard.data import DomainResult
from burnish.dashboard.node import extend, node

WIDTH = 1000.0
ROW_HEIGHT = 26.0
GAP = 16.0


def whisker_chart(domains: Mapping[str, DomainResult]) -> Element:
    """One row for each evaluation; the dot is hollow before training and full after it."""
    rows = {name: evaluations(domain) for name, domain in domains.items()}
    highest = max((interval.high for group in rows.values() for interval in group.values()), default=1.0)
    height = sum(len(group) * ROW_HEIGHT + GAP for group in rows.values()) + 56
    longest = max((len(name) for name in rows), default=0)
    left = min(420.0, 40 + CHARACTER_WIDTH * (longest + 14))
    frame = Frame(
        x=Scale(low=0.0, high=_axis_end(highest), start=left, end=WIDTH - 78),
        y=Scale(low=0.0, high=1.0, start=height - 46, end=6),
    )
    chart = node("svg", node("title", "Scores before and after, with 95 % intervals"), class_="chart", role="img")
    chart.set("viewBox", f"0 0 {WIDTH:g} {height:g}")
    extend(chart, grid_x(frame, "mean score (line: 95 % interval)", with_lines=True))
    y = 6 + GAP / 2
    for name, group in rows.items():
        extend(chart, _group(name, group, y, frame))
        y += len(group) * ROW_HEIGHT + GAP
    return chart


def evaluations(domain: DomainResult) -> dict[str, Interval]:
    """All evaluations of a domain in order: before, in between, after."""
    return {"before": domain.before, **domain.checkpoints, "after": domain.after}


def _group(name: str, group: Mapping[str, Interval], top: float, frame: Frame) -> list[Element]:
    drawn = [node("text", name, class_="name strong", x=8, y=top + 17)]
    for index, (label, interval) in enumerate(group.items()):
        y = top + (index + 0.5) * ROW_HEIGHT
        kind = {0: "hollow", len(group) - 1: "full"}.get(index, "half")
        drawn.append(node("text", label, class_="tick", x=frame.x.start - 12, y=y + 4, text_anchor="end"))
        drawn += _whisker(interval, y, kind, frame)
    return drawn


def _whisker(interval: Interval, y: float, kind: str, frame: Frame) -> list[Element]:
    if interval.n == 0:
        return [node("text", "nothing was scored", class_="tick", x=frame.x.start + 8, y=y + 4)]
    low, mean, high = (frame.x.at(value) for value in (interval.low, interval.mean, interval.high))
    caps = f"M{low:.1f} {y - 5:g}v10M{high:.1f} {y - 5:g}v10M{low:.1f} {y:g}H{high:.1f}"
    return [
        node("path", class_=f"whisker {kind}", d=caps),
        node("circle", class_=f"mean {kind}", cx=mean, cy=y, r=5.5),
        node("text", f"{interval.mean:.3f}", class_="name", x=WIDTH - 66, y=y + 4),
    ]


def _axis_end(highest: float) -> float:
    """The next round number above the highest whisker, at most 1."""
    step = ticks(0.0, max(highest, 0.05))[1]
    return min(1.0, step * -(-highest // step)) if highest > 0 else 1.0
