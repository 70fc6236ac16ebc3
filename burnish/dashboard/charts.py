"""Line charts as SVG: the measured points faint, their moving mean strong.

The mean is taken over neighbours on both sides (a twelfth of the curve each way, as far as there are any),
so that it does not lag behind. Curves of fewer than `LEAST_TO_SMOOTH` points are drawn as they are.
Values that are not finite leave a gap. Series differ by colour and by dash.
"""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

from burnish.core.errors import RunFolderError
from burnish.dashboard.axes import Frame, Scale, grid_x, grid_y, widen
from burnish.dashboard.data import Curve
from burnish.dashboard.node import extend, node, to_xml
from burnish.dashboard.style import CHART_CSS, NUM_COLOURS, PALETTE_CSS

LEAST_TO_SMOOTH = 12
DASHES = ("none", "8 3", "2 3", "10 3 2 3", "5 5", "1 4")
CHARACTER_WIDTH = 7.2


class Size(NamedTuple):
    """Width and height of a chart, in its own units."""

    width: float
    height: float


LARGE = Size(width=1000, height=360)
SMALL = Size(width=520, height=270)


def line_chart(title: str, series: Mapping[str, Curve], size: Size = SMALL, x_title: str = "step") -> Element:
    """Draw curves over a common axis; says so if there is nothing to draw."""
    chart = node("svg", node("title", title), class_="chart", viewBox=f"0 0 {size.width:g} {size.height:g}", role="img")
    points = [point for curve in series.values() for point in _finite(curve)]
    if not points:
        return extend(chart, [_nothing(size)])
    legend, top = _legend(list(series), size.width)
    frame = _frame(points, size, top)
    extend(chart, [*legend, *grid_y(frame), *grid_x(frame, x_title, with_lines=False)])
    for index, curve in enumerate(series.values()):
        extend(chart, _curve(curve, frame, index))
    return chart


def write_learning_curve_svg(path: Path, curves: Mapping[str, Curve], title: str, x_title: str = "step") -> None:
    """Write one chart as an SVG file that needs nothing beside it."""
    chart = line_chart(title, curves, LARGE, x_title)
    heading = node("text", title, class_="heading", x=24, y=32)
    height = LARGE.height + 48
    inner = node("g", *chart[1:], transform="translate(0 48)")
    picture = node(
        "svg",
        node("title", title),
        node("style", PALETTE_CSS + CHART_CSS),
        node("rect", class_="paper", width=LARGE.width, height=height, rx=10),
        heading,
        inner,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {LARGE.width:g} {height:g}",
        role="img",
    )
    write_whole(path, to_xml(picture))


def smooth(curve: Curve) -> list[tuple[float, float]]:
    """The moving mean over neighbours on both sides."""
    points = _finite(curve)
    reach = max(1, len(points) // 12)
    means: list[tuple[float, float]] = []
    for index, (step, _) in enumerate(points):
        window = points[max(0, index - reach) : index + reach + 1]
        means.append((step, math.fsum(value for _, value in window) / len(window)))
    return means


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    beside = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise RunFolderError(
            f"cannot write report {str(path)!r}: {error.strerror}; free the disk or choose a writable run folder"
        ) from error


def _curve(curve: Curve, frame: Frame, index: int) -> list[Element]:
    colour = f"s{index % NUM_COLOURS}"
    points = _finite(curve)
    if len(points) == 1:
        return [node("circle", class_=f"dot {colour}", cx=frame.x.at(points[0][0]), cy=frame.y.at(points[0][1]), r=3.5)]
    dash = DASHES[index % len(DASHES)]
    if len(points) < LEAST_TO_SMOOTH:
        return [node("path", class_=f"line {colour}", d=_path(curve, frame), stroke_dasharray=dash)]
    return [
        node("path", class_=f"line faint {colour}", d=_path(curve, frame)),
        node("path", class_=f"line {colour}", d=_path(smooth(curve), frame), stroke_dasharray=dash),
    ]


def _path(curve: Curve, frame: Frame) -> str:
    commands: list[str] = []
    pen_is_down = False
    for step, value in curve:
        if math.isfinite(value):
            commands.append(f"{'L' if pen_is_down else 'M'}{frame.x.at(step):.1f} {frame.y.at(value):.1f}")
        pen_is_down = math.isfinite(value)
    return "".join(commands)


def _frame(points: Sequence[tuple[float, float]], size: Size, top: float) -> Frame:
    steps, values = [step for step, _ in points], [value for _, value in points]
    first, last = min(steps), max(steps)
    low, high = widen(min(values), max(values))
    return Frame(
        x=Scale(low=first, high=last if last > first else first + 1, start=58, end=size.width - 18),
        y=Scale(low=low, high=high, start=size.height - 46, end=top + 14),
    )


def _legend(names: Sequence[str], width: float) -> tuple[list[Element], float]:
    """A sample and a name for each series, in rows; and where the rows end."""
    drawn: list[Element] = []
    x, y = 58.0, 14.0
    for index, name in enumerate(names):
        needed = 40 + CHARACTER_WIDTH * len(name)
        if x > 58 and x + needed > width:
            x, y = 58.0, y + 20
        dash = DASHES[index % len(DASHES)]
        line = f"M{x:g} {y:g}h26"
        drawn += [
            node("path", class_=f"line s{index % NUM_COLOURS}", d=line, stroke_dasharray=dash),
            node("text", name, class_="name", x=x + 33, y=y + 4),
        ]
        x += needed + 16
    return drawn, y + 6


def _finite(curve: Curve) -> list[tuple[float, float]]:
    return [(step, value) for step, value in curve if math.isfinite(step) and math.isfinite(value)]


def _nothing(size: Size) -> Element:
    middle = {"x": size.width / 2, "y": size.height / 2}
    return node("text", "nothing was measured", class_="tick", text_anchor="middle", **middle)
