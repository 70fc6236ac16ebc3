"""The report's section of episodes: one task, before and after, turn by turn."""

from burnish.dashboard.data import ReportData
from burnish.dashboard.episode_data import EpisodePair, EpisodeView, TurnView
from burnish.dashboard.node import to_html
from burnish.dashboard.report import page


def view(label: str, score: float | None, *turns: tuple[str, str]) -> EpisodeView:
    return EpisodeView(label=label, score=score, turns=[TurnView(said=said, answered=told) for said, told in turns])


def page_of(*pairs: EpisodePair) -> str:
    data = ReportData(
        name="r", outcome="ungated", seed=1, wall_s=1.0, peak_rss_mb=1.0, tokens_sampled=1, tokens_trained=1,
        domains={}, episodes=pairs,
    )  # fmt: skip
    return to_html(page(data))


def test_what_was_said_and_answered_stands_side_by_side_and_escaped():
    many = [(f"turn {number}", "ok") for number in range(15)]
    html = page_of(
        EpisodePair(
            domain="terminal", task="Fix <it>.", before=view("before", 0.0, ("ls <b>", "a\nb")),
            after=view("after", 1.0, *many),
        )
    )  # fmt: skip
    assert "Fix &lt;it&gt;." in html and "ls &lt;b&gt;" in html and "0.00 → 1.00" in html
    assert "before: 0.00 in 1 turns" in html and "3 more turns" in html and "turn 12" not in html


def test_without_episodes_there_is_no_section():
    assert "Episodes, before and after" not in page_of()
