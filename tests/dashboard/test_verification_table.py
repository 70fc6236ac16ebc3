from dataclasses import replace

from burnish.dashboard.node import to_html
from burnish.dashboard.report import page
from burnish.dashboard.verification import verification_of
from tests.dashboard.fake_report import REPORT

STEPS = [
    {"loss": 1.0, "verify/code/num_verdicts": 8.0, "verify/code/num_paid": 6.0, "verify/code/p50_ms": 4.0},
    {
        "verify/code/num_verdicts": 4.0, "verify/code/num_paid": 2.0, "verify/code/num_hits": 2.0,
        "verify/code/p50_ms": 12.0, "verify/code/num_tampered": 3.0, "verify/jsonl:a/b.jsonl/num_verdicts": 5.0,
    },
]  # fmt: skip


def test_counts_add_up_and_times_are_weighted_by_what_was_paid():
    found = verification_of(STEPS)
    assert found["code"]["num_verdicts"] == 12
    assert found["code"]["p50_ms"] == (6 * 4 + 2 * 12) / 8
    assert found["jsonl:a/b.jsonl"]["num_verdicts"] == 5


def test_the_report_shows_verdicts_by_domain_and_nothing_where_there_are_none():
    html = to_html(page(replace(REPORT, verification=verification_of(STEPS))))
    assert "jsonl:a/b.jsonl" in html
    assert "25 %" in html  # tampered, 3 of 12
    assert "<h2>Verdicts</h2>" not in to_html(page(REPORT))
