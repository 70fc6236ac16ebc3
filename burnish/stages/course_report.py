"""What a report shows of the stages whose shares could change, from the ledger's course."""

from collections.abc import Mapping, Sequence
from typing import Any

from burnish.core.config import validate
from burnish.core.ledger import CourseRow
from burnish.dashboard.course_data import CorrectionView, CourseView, DomainCourse, GateView
from burnish.rollout.course import State
from burnish.stages.curriculum import CHANGE, GATE, final_state, plan_of
from burnish.stages.rl_config import Config
from burnish.stages.session import Session

RECENT = 32
"""Of so many last groups a domain's reward is shown."""


def courses(session: Session) -> list[CourseView]:
    """One view for each stage `rl` that has a course."""
    found: list[CourseView] = []
    for position, stage in enumerate(session.recipe.stages):
        rows = session.ledger.course(position) if stage["use"] == "rl" else []
        if not rows:
            continue
        options = {name: value for name, value in stage.items() if name != "use"}
        plan = plan_of(validate(Config, options, "stage 'rl'"), [source.entry for source in session.live_sources])
        found.append(view(f"{position}-rl", rows, final_state(plan, rows)))
    return found


def view(stage: str, rows: Sequence[CourseRow], state: State) -> CourseView:
    """The rows of one stage as tables want them."""
    changes = [row for row in rows if row.kind in (CHANGE, GATE) and "shares" in row.payload]
    first, last = changes[0].payload["shares"], changes[-1].payload["shares"]
    return CourseView(
        stage=stage,
        domains=[
            DomainCourse(
                name=name, phase=standing.phase, num_groups=standing.num_groups,
                reward=standing.reward(min(RECENT, len(standing.means))) if standing.means else None,
                first_share=first.get(name, 0.0), last_share=last.get(name, 0.0), factor=state.factors.get(name, 1.0),
            )
            for name, standing in state.standings.items()
        ],
        changes=[(row.step, "; ".join(row.payload["why"])) for row in changes],
        gates=[_gate(row) for row in rows if row.kind == GATE],
        corrections=_corrections(changes),
    )  # fmt: skip


def _gate(row: CourseRow) -> GateView:
    sentences = [(one["suite"], one["in_words"]) for one in row.payload["compared"]]
    return GateView(step=row.step, kind=row.payload["kind"], sentences=sentences, why=row.payload.get("why", ()))


def _corrections(changes: Sequence[CourseRow]) -> list[CorrectionView]:
    """Each target with what the next correction measured of it."""
    found: list[CorrectionView] = []
    open_since: dict[tuple[str, str, str], int] = {}
    for row in changes:
        for one in row.payload["measured"]:
            found.append(_correction(open_since.pop(_key(one), row.step), one))
        for one in row.payload["corrections"]:
            open_since[_key(one)] = row.step
    left = {_key(one): one for row in changes for one in row.payload["corrections"] if _key(one) in open_since}
    return sorted([*found, *[_correction(open_since[key], one) for key, one in left.items()]], key=lambda one: one.step)


def _key(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["domain"], one["place"], one["part"]


def _correction(step: int, one: Mapping[str, Any]) -> CorrectionView:
    return CorrectionView(step=step, **one)
