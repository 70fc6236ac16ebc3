"""Which episodes the report shows: three held-out tasks of each domain with turns, before training and after."""

from collections.abc import Mapping
from typing import Any

from burnish.dashboard.episode_data import EpisodePair, EpisodeView, TurnView
from burnish.domains import HasEnvironment
from burnish.rollout.mixture import held_out
from burnish.stages.session import Session

NUM_SHOWN = 3


def episode_pairs(session: Session, before: int, after: int) -> list[EpisodePair]:
    """Those whose score changed most come first."""
    tasks = {
        draw.task.id: draw
        for draw in held_out(session.sources, session.eval_seed)
        if isinstance(draw.source.domain, HasEnvironment)
    }
    if not tasks or before == after:
        return []
    early, late = (session.ledger.evals(position) for position in (before, after))
    both = [one for one in tasks if one in early and one in late]
    pairs: list[EpisodePair] = []
    for name in {tasks[one].source.entry.report_name: None for one in both}:
        of_name = [one for one in both if tasks[one].source.entry.report_name == name]
        of_name.sort(key=lambda one: -abs(_score(late[one]) - _score(early[one])))
        for one in of_name[:NUM_SHOWN]:
            asked = tasks[one].task.messages[-1].content
            pairs.append(
                EpisodePair(
                    domain=name, task=asked, before=_view("before", early[one]), after=_view("after", late[one])
                )
            )
    return pairs


def _view(label: str, payload: Mapping[str, Any]) -> EpisodeView:
    turns = [TurnView(said=step["reply"], answered=step["observation"]) for step in payload.get("steps", [])]
    return EpisodeView(label=label, turns=turns, score=payload["score"], parts=payload["parts"])


def _score(payload: Mapping[str, Any]) -> float:
    return payload["score"] or 0.0
