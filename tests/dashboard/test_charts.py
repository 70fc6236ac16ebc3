import math
import re
from xml.etree import ElementTree

import pytest

from burnish.core.interval import Interval
from burnish.dashboard import words
from burnish.dashboard.axes import Scale, ticks, widen
from burnish.dashboard.bars import stacked_bar
from burnish.dashboard.charts import line_chart, smooth, write_learning_curve_svg
from burnish.dashboard.data import DomainResult
from burnish.dashboard.node import to_xml
from burnish.dashboard.whiskers import whisker_chart


def shapes(chart, tag, class_):
    return [element for element in chart.iter(tag) if class_ in (element.get("class") or "").split()]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 59, [0, 20, 40]),
        (-3, 2, [-3, -2, -1, 0, 1, 2]),
        (0.0004, 0.0011, [0.0004, 0.0006, 0.0008, 0.001]),
        (0, 123456, [0, 25000, 50000, 75000, 100000]),
    ],
)
def test_ticks_are_round_and_inside(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("values", [(0, 0), (1, 1), (-2, -2), (0.9, 1), (0, 5), (-1, 1), (1e9, 1e9)])
def test_a_widened_range_holds_its_values_and_is_not_empty(values):
    low, high = widen(*values)
    assert low <= values[0] <= values[1] <= high
    assert low < high


def test_a_scale_turns_the_vertical_axis_over():
    scale = Scale(low=10, high=20, start=300, end=100)
    assert (scale.at(10), scale.at(15), scale.at(20)) == (300, 200, 100)


def test_smoothing_keeps_lines_straight_and_means_flat():
    straight = [(step, 2.0 * step) for step in range(60)]
    assert smooth(straight)[10:50] == straight[10:50]
    assert smooth([(0, 1.0), (1, 3.0), (2, 5.0)]) == [(0, 2.0), (1, 3.0), (2, 4.0)]


def test_a_rising_curve_is_drawn_rising():
    (line,) = shapes(line_chart("reward", {"code": [(0, 0.1), (1, 0.2), (2, 0.9)]}), "path", "line")[1:]
    points = [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([\d. ]+)", line.get("d"))]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_long_curves_are_smoothed_over_faint_points():
    chart = line_chart("reward", {"code": [(step, step % 2) for step in range(40)]})
    assert len(shapes(chart, "path", "faint")) == 1
    assert not shapes(line_chart("reward", {"code": [(0, 1), (1, 2)]}), "path", "faint")


def test_a_missing_value_leaves_a_gap():
    chart = line_chart("kl", {"k3": [(0, 1.0), (1, math.nan), (2, 3.0), (3, 4.0)]})
    assert shapes(chart, "path", "line")[1].get("d").count("M") == 2
    assert "nan" not in to_xml(chart)


@pytest.mark.parametrize("series", [{}, {"code": []}, {"code": [(0, math.nan)]}])
def test_nothing_to_draw_is_said(series):
    assert "nothing was measured" in to_xml(line_chart("reward", series))


@pytest.mark.parametrize("curve", [[(3, 0.5)], [(0, 0.0), (1, 0.0)], [(0, 1e12), (1, -1e12)], [(5, 1.0), (5, 2.0)]])
def test_odd_curves_are_drawn_inside_the_paper(curve):
    chart = line_chart("x", {"s": curve})
    _, _, width, height = map(float, chart.get("viewBox").split())
    numbers = re.findall(r"[ML]([\d.-]+) ([\d.-]+)", "".join(p.get("d") for p in shapes(chart, "path", "line")))
    assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in numbers)


def test_many_long_names_wrap_into_rows_above_the_plot():
    names = [f"a rather long series name {index}" for index in range(8)]
    chart = line_chart("x", {name: [(0, 0), (1, 1)] for name in names})
    labels = [float(t.get("y")) for t in shapes(chart, "text", "name")]
    assert len(set(labels)) > 2
    plotted = re.findall(r"M[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)", to_xml(chart))
    assert max(labels) < min(float(y) for pair in plotted for y in pair)


def test_the_readme_picture_is_one_svg_file(tmp_path):
    write_learning_curve_svg(tmp_path / "curve.svg", {"code <&>": [(0, 0.1), (1, 0.4)]}, "Reward")
    text = (tmp_path / "curve.svg").read_text()
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "code &lt;&amp;&gt;" in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]


def test_whiskers_reach_from_low_to_high_around_the_mean():
    domain = DomainResult(before=Interval(0.2, 0.1, 0.4, 9), after=Interval(0.6, 0.5, 1.0, 9), paired_p=0.5)
    chart = whisker_chart({"code": domain})
    dots = [float(dot.get("cx")) for dot in shapes(chart, "circle", "mean")]
    low, high, _ = [float(x) for x in re.findall(r"M([\d.]+)", shapes(chart, "path", "whisker")[0].get("d"))]
    assert low < dots[0] < high < dots[1]
    assert (dots[0] - low) / (high - low) == pytest.approx(1 / 3, abs=0.001)
    assert [dot.get("class") for dot in shapes(chart, "circle", "mean")] == ["mean hollow", "mean full"]


def test_stacked_parts_are_as_wide_as_their_share():
    bars = shapes(stacked_bar("time", {"a": 3, "b": 1, "c": 0}), "rect", "bar")
    assert [float(bar.get("width")) for bar in bars] == [748, 248, 0]
    assert len(shapes(stacked_bar("time", {"a": 0.0}), "rect", "bar")) == 1


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (words.p_value(3e-9), "< 0.0001"),
        (words.p_value(0.0123), "0.012"),
        (words.p_value(1.0), "1.00"),
        (words.seconds(59.94), "59.9 s"),
        (words.seconds(59.96), "1 min 0 s"),
        (words.seconds(3725), "1 h 2 min"),
        (words.count(1234567), "1\u202f234\u202f567"),
        (words.megabytes(4310), "4.2 GiB"),
        (words.change(-0.05), "\u22120.050"),
        (words.share(1, 300), "< 1 %"),
        (words.share(0, 0), "–"),
    ],
)
def test_numbers_are_written_for_people(written, expected):
    assert written == expected
