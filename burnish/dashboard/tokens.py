"""A sampled trajectory as text: which tokens were given, which were sampled, and how surprising each was."""

import math
from collections.abc import Sequence
from itertools import groupby
from xml.etree.ElementTree import Element

from burnish.dashboard import words
from burnish.dashboard.data import TrajectoryView
from burnish.dashboard.node import Child, node
from burnish.dashboard.tables import part_table

LEAST_PROBABILITIES = (0.9, 0.5, 0.2, 0.05)


def legend() -> Element:
    """What the colours of tokens mean."""
    bounds = ["over 90 %", "50 to 90 %", "20 to 50 %", "5 to 20 %", "under 5 %"]
    samples = [node("span", f"sampled, {bound}", class_=f"t{index}") for index, bound in enumerate(bounds)]
    return node("div", node("span", "given (not trained)", class_="given"), *samples, class_="legend")


def trajectory(view: TrajectoryView, *, is_open: bool) -> Element:
    """One attempt that folds out: the task, the tokens, the judged reply, and the verdict."""
    badge = node("span", _score_text(view.score), class_=f"badge {_look(view.score)}")
    summary = node("summary", node("strong", view.domain), f" · {view.stage} ", badge)
    body: list[Child] = [summary, node("h3", "Task"), text_block(view.prompt)]
    body += [node("h3", "Tokens"), node("div", *token_spans(view.tokens), class_="text", dir="auto")]
    body += [node("h3", "Judged reply"), text_block(view.reply or "(empty)")]
    if view.parts:
        body.append(part_table(view.parts))
    if view.evidence:
        body += [node("h3", "Evidence"), text_block(view.evidence)]
    return node("details", *body, **({"open": "open"} if is_open else {}))


def token_spans(tokens: Sequence[tuple[str, bool, float]]) -> list[Child]:
    """Tokens one by one; given tokens in a row are joined."""
    spans: list[Child] = []
    for was_sampled, run in groupby(tokens, key=lambda token: token[1]):
        if was_sampled:
            spans += [_sampled(text, logprob) for text, _, logprob in run]
        else:
            spans.append(node("span", "".join(text for text, _, _ in run), class_="given"))
    return spans


def text_block(text: str) -> Element:
    """Text as it stands, line breaks kept."""
    return node("div", text, class_="text", dir="auto")


def _sampled(text: str, logprob: float) -> Element:
    probability = math.exp(min(0.0, logprob))
    band = sum(probability < least for least in LEAST_PROBABILITIES)
    shown = text.replace("\n", "↵\n") or "∅"
    return node("span", shown, class_=f"t{band}", title=f"p = {probability:.3g}, log p = {logprob:.3f}")


def _score_text(score: float | None) -> str:
    return "not scored" if score is None else f"score {words.score(score)}"


def _look(score: float | None) -> str:
    if score is None:
        return ""
    return "good" if score >= 1 else "bad" if score <= 0 else ""
