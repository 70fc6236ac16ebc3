"""Run a recipe from its first unfinished stage to its last."""

from itertools import count
from pathlib import Path
from typing import Any

from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe
from burnish.stages import training
from burnish.stages.check import open_stages, prove_tasks
from burnish.stages.session import Session, open_session
from burnish.stages.terminal import terminal

EXIT_PROMOTED = 0
EXIT_HELD = 1


def run_recipe(recipe: Recipe, runs: Path, *, resume: bool, source: Path | None = None) -> int:
    """Run all stages; return 0 if the gate promoted (or there is none), 1 if it held. `source` is the recipe's file."""
    stages = open_stages(recipe)
    prove_tasks(recipe, stages[num_done(runs / recipe.name) :] if resume else stages)
    with open_session(recipe, runs, resume=resume, console=terminal()) as session:
        if source:
            session.folder.keep_source(source)
        outcome = "promoted"
        for session.position, (module, config) in enumerate(stages):
            result = session.ledger.stage_result(session.position)
            if result is None:
                with session.flight.keeping(session.stage_name):
                    result = module.run(session, config)
                session.heartbeat()
                session.ledger.finish_stage(session.position, session.stage_name, result)
            else:
                session.console.print(f"{session.stage_name} is done already", style="dim")
            training.tidy(session)
            _take_up(session, result)
            outcome = result.get("outcome", outcome)
    return EXIT_PROMOTED if outcome == "promoted" else EXIT_HELD


def num_done(run: Path) -> int:
    """How many stages a run has finished, if there is one: what they read need not be there any more."""
    if not (run / "ledger.sqlite").exists():
        return 0
    ledger = Ledger(run / "ledger.sqlite")
    try:
        return next(position for position in count() if ledger.stage_result(position) is None)
    finally:
        ledger.close()


def _take_up(session: Session, result: dict[str, Any]) -> None:
    checkpoint = result.get("checkpoint", session.checkpoint)
    if checkpoint != session.checkpoint:
        session.load_checkpoint(checkpoint)
