"""The report of a run: one HTML file with everything inside, no scripts, nothing fetched.

A content policy in the page forbids scripts and requests even if some text should slip through
the escaping of `node.py`. Covered: light and dark, narrow screens, print, screen readers (tables
with captions and scopes, charts with titles). Not covered: interaction beyond folding.
"""

from pathlib import Path
from xml.etree.ElementTree import Element

from burnish.dashboard import words
from burnish.dashboard.bars import stacked_bar
from burnish.dashboard.charts import LARGE, SMALL, line_chart, write_whole
from burnish.dashboard.course import course_tables
from burnish.dashboard.data import DomainResult, Outcome, ReportData
from burnish.dashboard.episodes import episode_pair
from burnish.dashboard.node import Child, node, to_html
from burnish.dashboard.style import CHART_CSS, PAGE_CSS, PALETTE_CSS
from burnish.dashboard.tables import (
    ALPHA,
    domain_table,
    fact_table,
    failure_table,
    mean_change,
    timing_table,
)
from burnish.dashboard.tokens import legend, text_block, trajectory
from burnish.dashboard.verification import verification_table
from burnish.dashboard.whiskers import whisker_chart

BY_INTERACTIONS = "Mean reward of sampled replies, by interactions with the environment"
OUTCOMES: dict[Outcome, tuple[str, str, str]] = {
    "promoted": (
        "✓ promoted",
        "good",
        "No domain is significantly worse: this model may replace the one it came from.",
    ),
    "held": ("✗ held", "bad", "The gate did not let this run pass: a domain is worse, or could not be judged."),
    "ungated": ("not gated", "", "The recipe has no gate: nothing was decided."),
}


def write_report(path: Path, data: ReportData) -> None:
    """Write the report; the file appears whole or not at all."""
    write_whole(path, "<!DOCTYPE html>\n" + to_html(page(data)) + "\n")


def page(data: ReportData) -> Element:
    """The whole page as a tree."""
    sections = [
        _header(data), _domains(data), _courses(data), _curves(data),
        _episodes(data), _trajectories(data), _failures(data),
        _verification(data), _timing(data),
    ]  # fmt: skip
    shown = [section for section in [*sections, _facts(data)] if section is not None]
    return node("html", _head(data), node("body", node("main", *shown)), lang="en")


def _head(data: ReportData) -> Element:
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return node(
        "head",
        node("meta", charset="utf-8"),
        node("meta", http_equiv="Content-Security-Policy", content=policy),
        node("meta", name="viewport", content="width=device-width, initial-scale=1"),
        node("title", f"{data.name}: Burnish report"),
        node("style", PALETTE_CSS + CHART_CSS + PAGE_CSS),
    )


def _header(data: ReportData) -> Element:
    word, look, sentence = OUTCOMES[data.outcome]
    costs = {
        "wall time": words.seconds(data.wall_s),
        "peak memory": words.megabytes(data.peak_rss_mb),
        "tokens sampled": words.count(data.tokens_sampled),
        "tokens trained": words.count(data.tokens_trained),
        "seed": str(data.seed),
    }
    return node(
        "header",
        node("div", node("h1", data.name), node("span", word, class_=f"badge {look}"), class_="title"),
        node("p", f"{_headline(list(data.domains.values()))} {sentence}"),
        node("dl", *[node("div", node("dt", k), node("dd", v)) for k, v in costs.items()], class_="costs"),
        class_="card",
    )


def _headline(domains: list[DomainResult]) -> str:
    clear = [d for d in domains if (d.paired_p if d.adjusted_p is None else d.adjusted_p) < ALPHA]
    num_better = sum(mean_change(domain) > 0 for domain in clear)
    num_worse = sum(mean_change(domain) < 0 for domain in clear)
    noun = "domain" if len(domains) == 1 else "domains"
    return f"Of {len(domains)} {noun}, {num_better} got significantly better and {num_worse} significantly worse."


def _domains(data: ReportData) -> Element | None:
    if not data.domains:
        return None
    note = (
        "p: the chance of so large a paired change if training had done nothing "
        "(McNemar or sign flips). Result: p below 0.05, after Holm's correction where it is shown."
    )
    return _card(
        "Before and after", whisker_chart(data.domains), domain_table(data.domains), node("p", note, class_="soft")
    )


def _courses(data: ReportData) -> Element | None:
    if not data.courses:
        return None
    return _card("Domains, stage by stage", *[table for course in data.courses for table in course_tables(course)])


def _curves(data: ReportData) -> Element | None:
    if not data.curves:
        return None
    (first, headline), *others = data.curves.items()
    charts = {title: line_chart(title, series, SMALL) for title, series in others}
    if data.interactions:
        charts = {BY_INTERACTIONS: line_chart(BY_INTERACTIONS, data.interactions, SMALL, "interactions"), **charts}
    grid = node("div", *[_figure(title, chart) for title, chart in charts.items()], class_="grid-2")
    note = node("p", "Faint: each step as measured. Strong: the mean over neighbouring steps.", class_="soft")
    return _card("Learning", note, _figure(first, line_chart(first, headline, LARGE)), grid)


def _episodes(data: ReportData) -> Element | None:
    if not data.episodes:
        return None
    note = "Held-out tasks of several turns, those first whose score changed most. Pale: what the world answered."
    folded = [episode_pair(pair, is_open=index == 0) for index, pair in enumerate(data.episodes)]
    return _card("Episodes, before and after", node("p", note, class_="soft"), *folded)


def _trajectories(data: ReportData) -> Element | None:
    if not data.trajectories:
        return None
    folded = [trajectory(view, is_open=index == 0) for index, view in enumerate(data.trajectories)]
    note = (
        "Only sampled tokens train. Their colour is the probability with which they were drawn; hover for the number."
    )
    return _card("Sampled trajectories", node("p", note, class_="soft"), legend(), *folded)


def _failures(data: ReportData) -> Element | None:
    if not any(data.failures.values()):
        return None
    return _card("Failures by kind", failure_table(data.failures))


def _verification(data: ReportData) -> Element | None:
    return _card("Verdicts", verification_table(data.verification)) if data.verification else None


def _timing(data: ReportData) -> Element | None:
    if not data.timing_s:
        return None
    longest_first = dict(sorted(data.timing_s.items(), key=lambda phase: -phase[1]))
    return _card("Where the time went", stacked_bar("Time by phase", longest_first), timing_table(longest_first))


def _facts(data: ReportData) -> Element | None:
    if not data.facts and not data.recipe:
        return None
    parts: list[Child] = [fact_table(data.facts)] if data.facts else []
    if data.recipe:
        parts.append(node("details", node("summary", "Recipe"), text_block(data.recipe)))
    return _card("Recipe and environment", *parts)


def _card(title: str, *children: Child) -> Element:
    return node("section", node("h2", title), *children, class_="card")


def _figure(title: str, chart: Element) -> Element:
    return node("figure", node("figcaption", title), chart)
