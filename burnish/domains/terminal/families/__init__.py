"""Families of small generated tasks, one file each: the ladder of the terminal.

A file defines `LEVELS`, the levels that it has, and `make(rng, level)`, which draws a task; equal states of `rng` give
equal tasks. Levels run from 0 (one edit, shown) to 5 (several faults, found from a symptom); the lower half, 0 to 2, is
short enough for a model of 135M parameters. A new file is a new family, without an entry anywhere.

Decisions: families in `HELD_OUT` are for evaluation alone. Of the others a quarter of all instructions evaluates: a
task's split is a hash of what its agent is told, so that no prompt is in both splits whatever the seed.
"""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from random import Random
from typing import Final

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Split
from burnish.domains.terminal.spec import TerminalTask

HELD_OUT: Final = frozenset({"find_host", "fix_unseen", "git_conflict", "sort_lines", "wrong_pin"})
LADDER: Final = range(6)
MOST_DRAWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of task."""

    name: str
    levels: Sequence[int]
    make: Callable[[Random, int], TerminalTask]

    @property
    def is_held_out(self) -> bool:
        """Whether training never draws from it."""
        return self.name in HELD_OUT


@cache
def names() -> tuple[str, ...]:
    """All families, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def family(name: str) -> Family:
    """Find a family; `ConfigError` lists the known ones."""
    if name not in names():
        raise ConfigError(f"no family {name!r} of terminal tasks; there are: {', '.join(names())}")
    module = import_module(f"{__name__}.{name}")
    return Family(name=name, levels=tuple(module.LEVELS), make=module.make)


def families(levels: Sequence[int] = LADDER, *, is_held_out: bool) -> tuple[Family, ...]:
    """The families that have one of the levels: those that training may use, or those that it never sees."""
    found = map(family, names())
    return tuple(one for one in found if one.is_held_out == is_held_out and set(one.levels) & set(levels))


def draw(one: Family, rng: Random, level: int, split: Split) -> TerminalTask:
    """Draw a task of a family whose instruction belongs to the split; a held-out family is for evaluation alone."""
    if one.is_held_out:
        if split == "train":
            raise ConfigError(f"family {one.name!r} is held out: training must not draw from it")
        return one.make(rng, level)
    for _ in range(MOST_DRAWS):
        task = one.make(rng, level)
        if split_of(task) == split:
            return task
    raise AssertionError(f"family {one.name!r} has no task for {split!r}")


def split_of(task: TerminalTask) -> Split:
    """The split that an instruction belongs to; a quarter evaluates."""
    return "eval" if derive(0, "split of a terminal task", task.family, task.instruction) % 4 == 0 else "train"
