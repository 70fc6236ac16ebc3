"""Episodes before and after, side by side: the task, then turn by turn what was said and what came back."""

from xml.etree.ElementTree import Element

from burnish.dashboard.episode_data import EpisodePair, EpisodeView
from burnish.dashboard.node import Child, node
from burnish.dashboard.tokens import text_block

MOST_TURNS = 12


def episode_pair(pair: EpisodePair, *, is_open: bool) -> Element:
    """Two episodes of one task, folded."""
    change = f"{_score(pair.before)} → {_score(pair.after)}"
    return node(
        "details",
        node("summary", node("strong", pair.domain), " ", node("span", change, class_="badge")),
        node("h3", "Task"), text_block(pair.task),
        node("div", _episode(pair.before), _episode(pair.after), class_="grid-2"),
        **({"open": "open"} if is_open else {}),
    )  # fmt: skip


def _episode(view: EpisodeView) -> Element:
    turns: list[Child] = []
    for turn in view.turns[:MOST_TURNS]:
        turns += [
            text_block(turn.said),
            node("div", turn.answered or "(the episode ends)", class_="text soft", dir="auto"),
        ]
    if len(view.turns) > MOST_TURNS:
        turns.append(node("p", f"{len(view.turns) - MOST_TURNS} more turns", class_="soft"))
    return node("section", node("h3", f"{view.label}: {_score(view)} in {len(view.turns)} turns"), *turns)


def _score(view: EpisodeView) -> str:
    return "not scored" if view.score is None else f"{view.score:.2f}"
