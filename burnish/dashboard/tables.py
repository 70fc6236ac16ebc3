"""The tables of a report: before and after, failures, time by phase, facts."""

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from burnish.core.interval import Interval
from burnish.dashboard import words
from burnish.dashboard.data import DomainResult
from burnish.dashboard.node import Child, node
from burnish.dashboard.style import NUM_COLOURS
from burnish.dashboard.whiskers import evaluations

ALPHA = 0.05


def table(caption: str, head: Sequence[Child], rows: Sequence[Sequence[Element]], class_: str = "") -> Element:
    """A table in a box that scrolls sideways on narrow screens."""
    heads = [cell if isinstance(cell, Element) else node("th", cell, scope="col") for cell in head]
    body = node("tbody", *[node("tr", *row) for row in rows])
    made = node("table", node("caption", caption), node("thead", node("tr", *heads)), body, class_=class_)
    return node("div", made, class_="scroll", tabindex="0")


def domain_table(domains: Mapping[str, DomainResult]) -> Element:
    """Each domain's evaluations, paired change, p-value, and what was not scored."""
    labels = list(dict.fromkeys(label for domain in domains.values() for label in evaluations(domain)))
    labels.sort(key=lambda label: (label == "after", label != "before"))
    head = ["domain", *map(_number_head, [*labels, "paired change"]), _number_head("p"), "result", "not scored"]
    rows = [_domain_row(name, domain, labels) for name, domain in domains.items()]
    return table("Mean score with its 95 % interval, on the same held-out tasks each time.", head, rows)


def failure_table(failures: Mapping[str, Mapping[str, int]]) -> Element:
    """What went wrong, counted by domain, most frequent first."""
    kinds: dict[str, int] = {}
    for counts in failures.values():
        for kind, num in counts.items():
            kinds[kind] = kinds.get(kind, 0) + num
    ordered = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    rows = [
        [node("th", kind, scope="row"), *[_number(words.count(counts.get(kind, 0))) for counts in failures.values()]]
        for kind in ordered
    ]
    return table(
        "How often, by domain; one reply can count more than once.", ["kind", *map(_number_head, failures)], rows
    )


def timing_table(timing_s: Mapping[str, float]) -> Element:
    """Seconds and share of each phase, with the colour that it has in the bar."""
    total = sum(timing_s.values())
    rows = [
        [
            node("th", node("span", class_=f"swatch s{index % NUM_COLOURS}"), phase, scope="row"),
            _number(words.seconds(value)),
            _number(words.share(value, total)),
        ]
        for index, (phase, value) in enumerate(timing_s.items())
    ]
    return table("Wall time by phase.", ["phase", _number_head("time"), _number_head("share")], rows, "narrow")


def fact_table(facts: Mapping[str, str]) -> Element:
    """Labels and values."""
    rows = [[node("th", label, scope="row"), node("td", value)] for label, value in facts.items()]
    return table("What ran, and on what.", ["fact", "value"], rows)


def part_table(parts: Mapping[str, float]) -> Element:
    """The parts of a verdict, each with a bar."""
    rows = [[node("th", part, scope="row"), _number(words.score(value)), _bar(value)] for part, value in parts.items()]
    return table("Parts of the verdict.", ["part", _number_head("value"), ""], rows, "narrow")


def result_badge(domain: DomainResult) -> Element:
    """Better, worse, or no clear change, in words and colour."""
    p = domain.paired_p if domain.adjusted_p is None else domain.adjusted_p
    mean = mean_change(domain)
    if p >= ALPHA or mean == 0:
        return node("span", "no clear change", class_="badge")
    word, look = ("▲ better", "good") if mean > 0 else ("▼ worse", "bad")
    return node("span", word, class_=f"badge {look}")


def mean_change(domain: DomainResult) -> float:
    """The paired change, or the change of the means where it was not given."""
    return domain.difference.mean if domain.difference else domain.after.mean - domain.before.mean


def _domain_row(name: str, domain: DomainResult, labels: Sequence[str]) -> list[Element]:
    made = evaluations(domain)
    change: list[Child] = [words.change(mean_change(domain))]
    if domain.difference:
        change.append(_range(words.change(domain.difference.low), words.change(domain.difference.high)))
    p: list[Child] = [words.p_value(domain.paired_p)]
    if domain.adjusted_p is not None:
        p.append(node("span", f"Holm {words.p_value(domain.adjusted_p)}", class_="range"))
    return [
        node("th", name, scope="row"),
        *[_interval(made[label]) if label in made else _number("–") for label in labels],
        _number(*change),
        _number(*p),
        node("td", result_badge(domain), *([node("span", domain.reason, class_="range")] if domain.reason else [])),
        node("td", _lost(domain)),
    ]


def _lost(domain: DomainResult) -> str:
    parts = [
        f"{when}: {', '.join(f'{num} {kind}' for kind, num in counts.items())}"
        for when, counts in (("before", domain.not_scored_before), ("after", domain.not_scored_after))
        if counts
    ]
    return "; ".join(parts) or "none"


def _interval(interval: Interval) -> Element:
    if interval.n == 0:
        return _number("none scored")
    shown = _range(words.score(interval.low), words.score(interval.high))
    return _number(words.score(interval.mean), shown, node("span", f"n = {interval.n}", class_="range"))


def _range(low: str, high: str) -> Element:
    return node("span", f"{low} to {high}", class_="range")


def _bar(value: float) -> Element:
    filled = node("span", class_="fill", style=f"width:{100 * min(1.0, max(0.0, value)):.0f}%")
    return node("td", node("span", filled, class_="track"))


def _number(*children: Child) -> Element:
    return node("td", *children, class_="number")


def _number_head(title: str) -> Element:
    return node("th", title, class_="number", scope="col")
