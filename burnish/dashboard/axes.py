"""Axes of charts: where a value lies on the paper, and which round numbers to write beside it."""

import math
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from burnish.dashboard.node import node


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A straight map from values to the paper."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The drawing area of a chart."""

    x: Scale
    y: Scale


def ticks(low: float, high: float, num_wanted: int = 5) -> list[float]:
    """Round numbers that span low to high, at most one more than wanted."""
    step = _round_step((high - low) / num_wanted)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def widen(low: float, high: float) -> tuple[float, float]:
    """A range with some air that begins at 0 where that costs little; never empty."""
    if low == high:
        low, high = low - max(abs(low), 1) * 0.1, high + max(abs(high), 1) * 0.1
    elif 0 <= low <= 0.4 * high:
        low, high = 0.0, high + 0.05 * high
    else:
        low, high = low - 0.06 * (high - low), high + 0.06 * (high - low)
    return low, high


def label(value: float) -> str:
    """A tick as short text; large numbers in thousands."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def grid_y(frame: Frame) -> list[Element]:
    """Horizontal lines with their numbers on the left."""
    drawn: list[Element] = []
    for value in ticks(frame.y.low, frame.y.high):
        y = frame.y.at(value)
        drawn += [
            node("line", class_="grid", x1=frame.x.start, x2=frame.x.end, y1=y, y2=y),
            node("text", label(value), class_="tick", x=frame.x.start - 8, y=y + 4, text_anchor="end"),
        ]
    return drawn


def grid_x(frame: Frame, title: str, *, with_lines: bool) -> list[Element]:
    """Numbers below, with or without vertical lines, and what they count."""
    bottom, drawn = frame.y.start, list[Element]()
    for value in ticks(frame.x.low, frame.x.high, 6):
        x = frame.x.at(value)
        if with_lines:
            drawn.append(node("line", class_="grid", x1=x, x2=x, y1=frame.y.end, y2=bottom))
        drawn.append(node("text", label(value), class_="tick", x=x, y=bottom + 18, text_anchor="middle"))
    middle = (frame.x.start + frame.x.end) / 2
    drawn.append(node("text", title, class_="tick", x=middle, y=bottom + 36, text_anchor="middle"))
    return drawn


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))
