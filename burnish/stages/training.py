"""What stages that train share: go on from the last checkpoint, save, settle what was sampled, finish."""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from burnish.core.run_folder import whole_folder
from burnish.data import trajectory_files
from burnish.stages.session import Session


class Saved(Protocol):
    """What a checkpoint holds: the policy, or the weights of another model."""

    def save(self, folder: Path, *, with_optimiser: bool) -> None:
        """Write into an existing folder."""
        ...

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        ...


def resume(session: Session, what: Saved | None = None) -> int:
    """Load this stage's newest checkpoint if there is one, into the policy or `what`; return its number of steps."""
    steps = _saved_steps(session)
    first = max(steps, default=0)
    if steps and what is not None:
        what.load(session.folder.checkpoint(step_name(session, first)))
    elif steps:
        session.load_checkpoint(step_name(session, first))
    if steps:
        session.console.print(f"{session.stage_name}: going on after step {first}", style="dim")
    session.metrics.truncate_after(session.stage_name, first - 1)
    return first


def restore(session: Session, num_steps: int, what: Saved | None = None) -> None:
    """Go back to this stage's checkpoint of so many steps, with all that it holds."""
    (what or session.policy).load(session.folder.checkpoint(step_name(session, num_steps)))


def save(session: Session, num_steps: int, what: Saved | None = None, keep: Collection[int] = ()) -> None:
    """Write a checkpoint that contains `num_steps` steps, then let go of the others but those to `keep`."""
    with whole_folder(session.folder.checkpoint(step_name(session, num_steps))) as folder:
        (what or session.policy).save(folder, with_optimiser=True)
    for older in _saved_steps(session):
        if older != num_steps and older not in keep:
            shutil.rmtree(session.folder.checkpoint(step_name(session, older)))


def settle(session: Session, step: int, what: Saved | None = None, keep: Collection[int] = ()) -> None:
    """Checkpoint the steps so far; their rollouts move to a file, then the ledger lets go of them."""
    rollouts = session.ledger.rollouts_up_to(session.position, step)
    if rollouts:
        trajectory_files.write(
            session.folder.path / "trajectories" / f"{session.stage_name}-step-{step:05d}.parquet", rollouts
        )
    session.ledger.to_disk()  # else a power cut could leave a checkpoint of steps that the ledger does not know
    save(session, step + 1, what, keep)
    session.ledger.commit_steps(session.position, step)


def finish(session: Session) -> dict[str, Any]:
    """Write the stage's last checkpoint, without its optimiser, of the average if one is kept; return the result."""
    session.policy.adopt_average()
    session.save_checkpoint(session.stage_name, with_optimiser=False)
    session.checkpoint = session.stage_name
    return {"checkpoint": session.stage_name}


def newest_step(session: Session) -> int:
    """How many steps this stage's newest checkpoint contains; 0 if there is none."""
    return max(_saved_steps(session), default=0)


def step_name(session: Session, num_steps: int) -> str:
    """The name of the checkpoint that contains so many steps of this stage."""
    return f"{session.stage_name}-step-{num_steps}"


def tidy(session: Session) -> None:
    """Remove the checkpoints of steps; only once the ledger has the stage's result."""
    for step in _saved_steps(session):
        shutil.rmtree(session.folder.checkpoint(step_name(session, step)))


def _saved_steps(session: Session) -> list[int]:
    prefix = f"{session.stage_name}-step-"
    folders = (session.folder.path / "checkpoints").glob(f"{prefix}*")
    return sorted(int(folder.name.removeprefix(prefix)) for folder in folders)
