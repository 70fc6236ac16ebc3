"""The gate: promote the newest weights only if no domain got significantly worse than before.

Otherwise it takes up the latest evaluated checkpoint that passes; the untrained model always does. Every
decision is kept with its numbers as the stage's result.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from burnish.core.config import Strict
from burnish.core.errors import ConfigError
from burnish.evals.gate import compare, gate
from burnish.stages import evaluate
from burnish.stages.evaluate import results_at
from burnish.stages.session import Session
from burnish.stages.terminal import styled

_NOT_EVALUATED = "gate: the newest weights were not evaluated; put an 'evaluate' stage just before the gate"


class Config(Strict):
    """Options of the stage."""

    alpha: float = Field(0.05, gt=0, lt=1)
    """Significance level over all domains (Holm)."""


def check_place(before: Sequence[Any]) -> None:
    """Two evaluations come before a gate, and no training after the second."""
    positions = [position for position, stage in enumerate(before) if stage is evaluate]
    if len(positions) < 2:
        raise ConfigError("gate: the recipe needs an 'evaluate' stage before training and one after it")
    if any(hasattr(stage, "TRAINS") for stage in before[positions[-1] :]):
        raise ConfigError(_NOT_EVALUATED)


def run(session: Session, config: Config) -> dict[str, Any]:
    """Compare each evaluation with the first, newest first; take up the first checkpoint that passes."""
    positions = evaluations(session)
    newest = positions[-1]
    if _evaluated(session, newest) != session.checkpoint:
        raise ConfigError(_NOT_EVALUATED)
    before = results_at(session, positions[0])
    decisions: list[dict[str, Any]] = []
    chosen = positions[0]
    for position in reversed(positions[1:]):
        decision = gate(compare(before, results_at(session, position)), alpha=config.alpha)
        decisions.append(
            {"evaluated": _evaluated(session, position), "kind": decision.kind, "reasons": dict(decision.reasons)}
        )
        if decision.kind == "promote":
            chosen = position
            break
    outcome = "promoted" if chosen == newest else "held"
    _say(session, outcome, decisions, _evaluated(session, chosen))
    return {"outcome": outcome, "checkpoint": _evaluated(session, chosen), "decisions": decisions, "chosen": chosen}


def evaluations(session: Session) -> list[int]:
    """The positions of the evaluations that this run has finished, in order."""
    stages = session.recipe.stages
    return [
        p for p, stage in enumerate(stages) if stage["use"] == "evaluate" and session.ledger.stage_result(p) is not None
    ]


def _evaluated(session: Session, position: int) -> str:
    result = session.ledger.stage_result(position)
    assert result is not None
    return result["evaluated"]


def _say(session: Session, outcome: str, decisions: list[dict[str, Any]], checkpoint: str) -> None:
    for decision in decisions:
        for name, reason in decision["reasons"].items():
            session.console.print(styled(f"  {decision['evaluated']}: ", (name, "bold"), f" {reason}"))
    colour = "green" if outcome == "promoted" else "red"
    session.console.print(styled((f"Gate: {outcome}", colour), f"; going on with checkpoint {checkpoint!r}"))
