"""Which task comes next: a pure function of the seed and the draw's number.

Sources take turns in proportion to their weights (the source furthest behind its share is next), so
that any stretch of draws is mixed and a resumed run draws what an unbroken one would have. A finite
source is gone through in a new random order each epoch. Prompts of the evaluation are passed over.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.seeds import derive
from burnish.core.types import Task
from burnish.domains import Domain

_MAX_PASSED_OVER = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An entry of the recipe and the domain that it opened."""

    entry: TaskEntry
    domain: Domain


class Draw(NamedTuple):
    """Draw number `number`: a task and the source that it is from."""

    number: int
    source: Source
    task: Task


class Mixture:
    """An endless sequence of training tasks."""

    def __init__(self, sources: Sequence[Source], *, seed: int, exclude: frozenset[str]) -> None:
        self._sources = sources
        self._seed = seed
        self._exclude = exclude
        self._drawn: list[Draw] = []
        self._num_taken = [0] * len(sources)
        self._num_draws = [0] * len(sources)

    def draw(self, number: int) -> Draw:
        """Draw number `number`; earlier draws are made first where they are missing."""
        while len(self._drawn) <= number:
            which = self._next_source()
            task = self._next_task(which)
            self._drawn.append(Draw(len(self._drawn), self._sources[which], task))
        return self._drawn[number]

    def _next_source(self) -> int:
        which = min(
            range(len(self._sources)), key=lambda i: ((self._num_draws[i] + 1) / self._sources[i].entry.weight, i)
        )
        self._num_draws[which] += 1
        return which

    def _next_task(self, which: int) -> Task:
        source = self._sources[which]
        for _ in range(_MAX_PASSED_OVER):
            task = self._task(which, self._num_taken[which])
            self._num_taken[which] += 1
            if task.prompt_hash not in self._exclude:
                return task
        raise ConfigError(
            f"{source.entry.domain}: {_MAX_PASSED_OVER} training tasks in a row are held-out ones; "
            "widen the domain by its options, or lower num_eval"
        )

    def _task(self, which: int, number: int) -> Task:
        domain = self._sources[which].domain
        size = domain.size("train")
        if size is None:
            return domain.task("train", self._seed, number)
        if size == 0:
            raise ConfigError(f"{domain.name} has no training tasks")
        epoch, place = divmod(number, size)
        order = list(range(size))
        random.Random(derive(self._seed, which, epoch)).shuffle(order)
        return domain.task("train", self._seed, order[place])


def held_out(sources: Sequence[Source], seed: int, num: int | None = None) -> list[Draw]:
    """The evaluation's tasks: `num_eval` of each source (at most `num`), each prompt once."""
    draws: list[Draw] = []
    seen: set[str] = set()
    for source in sources:
        size = source.domain.size("eval")
        wanted = source.entry.num_eval if num is None else min(num, source.entry.num_eval)
        kept = 0
        for index in range(wanted + _MAX_PASSED_OVER if size is None else size):
            if kept == wanted:
                break
            task = source.domain.task("eval", seed, index)
            if task.prompt_hash not in seen:
                seen.add(task.prompt_hash)
                draws.append(Draw(len(draws), source, task))
                kept += 1
        if kept == 0:
            raise ConfigError(f"{source.entry.domain} has no held-out tasks")
    return draws
