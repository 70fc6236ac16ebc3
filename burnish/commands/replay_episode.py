"""`burnish replay-episode`: play what happened in an episode of a run, turn by turn, in the terminal. Imports no torch.

An episode is named as the run names it: `GROUP/MEMBER` of stage `rl` (for example `3/0000012/0`), or the task's id for
an oracle's episode or an evaluation's, of which the last one that the run has is shown.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from burnish.core.errors import ConfigError, RunFolderError
from burnish.core.ledger import Ledger
from burnish.core.run_folder import kept_recipe
from burnish.core.types import Step, Trajectory, steps_from_json
from burnish.core.visible import visible
from burnish.data import trajectory_files

MOST_NAMED = 8


def replay_episode(run: Path, name: str, *, pause_s: float) -> None:
    """Print the episode; `ConfigError` names some that there are."""
    if not (run / "ledger.sqlite").exists():
        raise RunFolderError(f"no run in {str(run)!r}; give a run folder, for example runs/terminal")
    if (found := next((episode for episode in _all(run) if episode[0] == name), None)) is not None:
        _play(*found, pause_s)
        return
    known = list(dict.fromkeys(title for title, _, _ in _all(run)))
    some = ", ".join(known[:MOST_NAMED]) or "none: the run has sampled no episode of several turns"
    raise ConfigError(f"no episode {name!r} in {str(run)!r}; there are {len(known)}, for example: {some}")


_Episode = tuple[str, Sequence[Step], str]


def _all(run: Path) -> Iterator[_Episode]:
    """Every episode that the run has kept: of evaluations, the last first."""
    recipe = kept_recipe(run)
    ledger = Ledger(run / "ledger.sqlite")
    try:
        for position in reversed(range(len(recipe.stages))):
            for task_id, payload in ledger.evals(position).items():
                if payload.get("steps"):
                    ending = _ending(payload["score"], payload["parts"], "")
                    yield task_id, steps_from_json(payload["steps"]), f"evaluation of stage {position}: {ending}"
            for group_id in ledger.issued(position):
                yield from (_of(one) for one in ledger.rollouts(group_id) if one.steps)
    finally:
        ledger.close()
    for path in sorted([*run.glob("trajectories/*.parquet"), *run.glob("*.demonstrations.parquet")]):
        yield from (_of(one) for one in trajectory_files.read(path) if one.steps)


def _of(one: Trajectory) -> _Episode:
    is_demonstration = one.group_id == one.task_id
    title = one.task_id if is_demonstration else f"{one.group_id}/{one.member}"
    verdict = one.verdict
    score, parts = (verdict.score, verdict.parts) if verdict else (None, {})
    return (
        title,
        one.steps,
        f"{one.task_id}, ended by {one.ended_by}: {_ending(score, parts, verdict.evidence if verdict else '')}",
    )


def _ending(score: float | None, parts: object, evidence: str) -> str:
    said = "not scored" if score is None else f"score {score:.3f}"
    return f"{said}\n{json.dumps(parts, indent=1)}" + (f"\n{evidence}" if evidence else "")


def _play(title: str, steps: Sequence[Step], ending: str, pause_s: float) -> None:
    typer.echo(f"=== {title}: {len(steps)} turns")
    for number, step in enumerate(steps):
        time.sleep(pause_s)
        typer.secho(f"--- turn {number} · {step.end - step.first} tokens{_earned(step)}", fg="cyan")
        typer.secho(visible(step.reply.rstrip()), bold=True)
        if step.observation:
            typer.echo(visible(step.observation.rstrip()))
    time.sleep(pause_s)
    typer.echo(f"=== {visible(ending)}")


def _earned(step: Step) -> str:
    kinds = ", ".join(dict.fromkeys(str(event.get("kind")) for event in step.events))
    earned = f" · earned {step.earned:+.3f}" if step.earned else ""
    return (f" · {kinds}" if kinds else "") + earned
