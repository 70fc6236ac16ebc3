import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from burnish.core.errors import RunFolderError
from burnish.core.interval import Interval
from burnish.core.visible import visible
from burnish.dashboard.data import DomainResult, summary_json
from burnish.dashboard.node import node, to_html
from burnish.dashboard.report import BY_INTERACTIONS, page, write_report
from burnish.dashboard.tables import result_badge
from burnish.dashboard.tokens import token_spans
from tests.dashboard.fake_report import DOMAINS, FAILURES, HOSTILE, REPORT, view

EMPTY = replace(REPORT, domains={}, curves={}, trajectories=(), failures={}, timing_s={}, facts={}, recipe="")
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and insists that every element is closed in order."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


def read(data):
    reader = Reader()
    reader.feed(to_html(page(data)))
    reader.close()
    assert reader.open == []
    return reader


def test_a_report_names_every_domain_curve_and_phase():
    text = read(REPORT).text
    for word in [
        *DOMAINS,
        *REPORT.curves,
        *REPORT.timing_s,
        *REPORT.facts,
        *FAILURES["code"],
        "quickstart",
        "promoted",
    ]:
        assert word in text


def test_rewards_over_interactions_are_drawn_over_an_axis_of_their_own():
    drawn = to_html(page(replace(REPORT, interactions={"sums": [(8.0, 0.1), (16.0, 0.5)]})))
    (chart,) = [svg for svg in re.findall(r"<svg.*?</svg>", drawn, re.DOTALL) if BY_INTERACTIONS in svg]
    assert ">interactions<" in chart and ">step<" not in chart
    assert BY_INTERACTIONS not in to_html(page(REPORT))


def test_a_report_fetches_nothing_and_runs_nothing():
    reader = read(REPORT)
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name in ("src", "href", "xlink:href") or name.startswith("on")]
    html = to_html(page(REPORT))
    assert not re.search(r"https?://|url\(|@import", html)
    assert "default-src 'none'" in html


def test_every_chart_is_well_formed_and_titled():
    charts = re.findall(r"<svg.*?</svg>", to_html(page(REPORT)), re.DOTALL)
    assert len(charts) == len(REPORT.curves) + 2
    for chart in charts:
        root = ElementTree.fromstring(chart)
        assert root[0].tag == "title"
        assert not re.search(r"\b(nan|inf)\b", chart)


def hostile_reports():
    """Hostile text in every place that takes text."""
    everywhere = view(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 0.5, parts={HOSTILE: 0.5}, evidence=HOSTILE)
    yield replace(REPORT, name=HOSTILE, trajectories=[everywhere], facts={HOSTILE: HOSTILE}, recipe=HOSTILE)
    yield replace(
        REPORT, domains={HOSTILE: replace(DOMAINS["code"], reason=HOSTILE, checkpoints={HOSTILE: Interval(0, 0, 1, 1)})}
    )
    yield replace(
        REPORT, curves={HOSTILE: {HOSTILE: [(0, 1), (1, 2)]}}, failures={HOSTILE: {HOSTILE: 1}}, timing_s={HOSTILE: 1}
    )


@pytest.mark.parametrize("data", list(hostile_reports()))
def test_hostile_text_stays_text(data):
    reader = read(data)
    assert {"script", "img"}.isdisjoint(reader.tags)
    assert "<script>alert(1)</script> ⟨U+202E⟩dlrow⟨U+2066⟩ ⟨U+0000⟩" in reader.text
    assert "alert" not in "".join(value or "" for _, value in reader.attributes)
    assert not re.search("[\x00\u202e\u2066]", to_html(page(data)))


def test_lone_surrogates_can_be_written(tmp_path):
    write_report(tmp_path / "r.html", replace(REPORT, trajectories=[view("code", "rl", "\ud800", "\udfff", 0.0)]))
    assert "⟨U+D800⟩" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("text", ["naïve 日本語 שלום 😀", "tab\tand\nline"])
def test_honest_text_is_left_alone(text):
    assert visible(text) == text


def test_text_between_elements_keeps_its_place():
    assert to_html(node("p", "a<", node("b", "c"), "d", "e", class_="x")) == '<p class="x">a&lt;<b>c</b>de</p>'


def test_an_empty_report_still_opens():
    assert "Of 0 domains" in read(EMPTY).text


def test_a_domain_that_was_never_scored_says_so():
    nothing = Interval(mean=0.0, low=0.0, high=1.0, n=0)
    lost = DomainResult(before=nothing, after=nothing, paired_p=1.0, not_scored_after={"timeout": 200})
    text = read(replace(EMPTY, domains={"code": lost})).text
    assert "nothing was scored" in text
    assert "after: 200 timeout" in text


@pytest.mark.parametrize(
    ("before", "after", "p", "adjusted_p", "words"),
    [
        (0.2, 0.4, 0.01, None, "▲ better"),
        (0.4, 0.2, 0.01, None, "▼ worse"),
        (0.4, 0.2, 0.04, 0.12, "no clear change"),
        (0.4, 0.2, 0.05, None, "no clear change"),
        (0.2, 0.2, 0.01, None, "no clear change"),
    ],
)
def test_the_badge_says_better_or_worse_only_if_it_is_clear(before, after, p, adjusted_p, words):
    one, two = Interval(before, 0, 1, 9), Interval(after, 0, 1, 9)
    domain = DomainResult(before=one, after=two, paired_p=p, adjusted_p=adjusted_p)
    assert result_badge(domain).text == words


def test_only_sampled_tokens_are_tinted_by_their_probability():
    spans = token_spans(
        [("Q", False, 0.0), (":", False, 0.0), ("a", True, -0.05), ("\n", True, -3.5), ("", True, -1.0)]
    )
    assert [(span.text, span.get("class")) for span in spans] == [
        ("Q:", "given"),
        ("a", "t0"),
        ("↵\n", "t4"),
        ("∅", "t2"),
    ]


@pytest.mark.parametrize(
    ("outcome", "badge"), [("promoted", "✓ promoted"), ("held", "✗ held"), ("ungated", "not gated")]
)
def test_the_outcome_is_a_badge(outcome, badge):
    assert f">{badge}</span>" in to_html(page(replace(EMPTY, outcome=outcome)))


def test_the_summary_has_the_agreed_keys_and_is_json():
    summary = json.loads(json.dumps(summary_json(REPORT), allow_nan=False))
    assert list(summary)[:7] == [
        "domains",
        "wall_s",
        "peak_rss_mb",
        "tokens_sampled",
        "tokens_trained",
        "seed",
        "outcome",
    ]
    assert summary["domains"]["code"] == {
        "before": {"mean": 0.31, "low": 0.252, "high": 0.371, "n": 200},
        "after": {"mean": 0.338, "low": 0.279, "high": 0.401, "n": 200},
        "paired_p": 0.214,
    }
    assert summary["not_scored"]["documents"]["after"] == {"infrastructure_error": 1}


def test_a_report_replaces_the_old_one_whole(tmp_path):
    path = tmp_path / "reports" / "report.html"
    write_report(path, EMPTY)
    write_report(path, REPORT)
    assert path.read_text().startswith("<!DOCTYPE html>\n<html")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="writable run folder"):
        write_report(tmp_path / "file" / "report.html", EMPTY)


def test_the_dashboard_imports_no_torch():
    code = "import burnish.dashboard.report, sys; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
