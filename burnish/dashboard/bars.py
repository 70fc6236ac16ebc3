"""One stacked bar: how a total splits into parts."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from burnish.dashboard.charts import CHARACTER_WIDTH
from burnish.dashboard.node import extend, node
from burnish.dashboard.style import NUM_COLOURS

WIDTH = 1000.0


def stacked_bar(title: str, parts: Mapping[str, float]) -> Element:
    """Draw the parts side by side; a part is named where its name fits."""
    chart = node("svg", node("title", title), class_="chart", viewBox=f"0 0 {WIDTH:g} 44", role="img")
    total = sum(parts.values())
    x = 0.0
    for index, (name, value) in enumerate(parts.items()):
        width = WIDTH * value / total if total > 0 else 0.0
        rect = node("rect", class_=f"bar s{index % NUM_COLOURS}", x=x, y=2, width=max(0.0, width - 2), height=40, rx=3)
        extend(chart, [rect])
        if width > CHARACTER_WIDTH * len(name) + 16:
            extend(chart, [node("text", name, class_="on-bar", x=x + width / 2, y=27, text_anchor="middle")])
        x += width
    return chart
