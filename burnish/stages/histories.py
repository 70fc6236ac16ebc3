"""Stored histories as stage `rl` takes them: groups of replies, of any outcome, that are of this recipe's own tasks.

A stored reply says by its task's id which domain it is of, and that domain makes the task again; only where the prompts
are equal is the group that entry's. What belongs to no entry is left out and counted, and so is what is held out.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from burnish.core.errors import ConfigError
from burnish.core.types import Task
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Source
from burnish.stages import offline_data
from burnish.stages.kept_data import keep_or_compare
from burnish.stages.session import Session


class Placed(NamedTuple):
    """A stored group under the name that its entry is reported under, and its task."""

    group: Group
    task: Task


class History(NamedTuple):
    """The groups that are of this recipe's tasks, in order of their prompts' hashes."""

    placed: Sequence[Placed]
    num_elsewhere: int
    """Replies to prompts that no entry has."""


def files_of(session: Session, place: str) -> list[Path]:
    """The files that `histories` means; "" is what this run's earlier stages have left."""
    if place:
        return offline_data.files(Path(place))
    earlier = [f"{number}-{stage['use']}-step-" for number, stage in enumerate(session.recipe.stages)]
    names = tuple(earlier[: session.position])
    found = offline_data.files(session.folder.path) if any((session.folder.path / "trajectories").glob("*")) else []
    kept = [path for path in found if names and path.name.startswith(names)]
    if not kept:
        raise ConfigError(
            f'{session.stage_name}: histories = "" are those of this run\'s earlier stages, and none has left any; put '
            "a stage 'rl' before, or name the folder of another run"
        )
    return kept


def open_histories(session: Session, place: str, temperatures: Sequence[float]) -> History:
    """Read, check and place; `temperatures` are those that the stage trains at."""
    paths = files_of(session, place)
    for temperature in temperatures:
        offline_data.check_temperature(paths, temperature)
    keep_or_compare(session, {path.name: path for path in paths})
    vocabulary: int = session.loaded.model.config.get_text_config().vocab_size
    held_out = session.held_out_prompts()
    stored = offline_data.read(paths, session.means.chat, vocabulary, held_out, needs_signal=False)
    found = [(group, place_of(group, session.live_sources)) for group in stored.groups]
    placed = [Placed(renumbered(group, at[0]), at[1]) for group, at in found if at]
    num_elsewhere = sum(len(group.members) for group, at in found if not at)
    if not placed:
        raise ConfigError(
            f"{session.stage_name}: none of the {num_elsewhere} stored replies is to a task of this recipe; histories "
            "are of the same domains, with the same options"
        )
    return History(placed, num_elsewhere)


def renumbered(group: Group, name: str) -> Group:
    """The group under a name, its members counted through: those of several runs may have the same group and number."""
    members = [replace(one, group_id=group.id, member=number) for number, one in enumerate(group.members)]
    return Group(group.id, name, tuple(members))


def place_of(group: Group, sources: Sequence[Source]) -> tuple[str, Task] | None:
    """The name that a stored group's entry is reported under, and its task; None where no entry has it."""
    name, split, seed, index = group.members[0].task_id.rsplit("/", 3)
    for source in sources:
        if source.domain.name == name and split == "train":
            task = source.domain.task("train", int(seed), int(index))
            if task.prompt_hash == group.members[0].prompt_hash:
                return source.entry.report_name, task
    return None
