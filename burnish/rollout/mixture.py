"""Which task comes next: a pure function of the seed and the draw's number.

Sources take turns in proportion to their weights (the source furthest behind its share is next), so
that any stretch of draws is mixed and a resumed run draws what an unbroken one would have. A finite
source is gone through in a new random order each epoch. Prompts of the evaluation are passed over.

Decision: of an old draw only its place is kept, eight bytes; its task is made again if it is asked for. Memory
therefore grows with the draws and the size of a source by bytes, not by tasks.
"""

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.seeds import derive
from burnish.core.types import Task
from burnish.domains import Domain

_MAX_PASSED_OVER = 1000
MOST_RECENT = 4096


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

    def __init__(
        self, sources: Sequence[Source], *, seed: int, exclude: frozenset[str], most_recent: int = MOST_RECENT
    ) -> None:
        self._sources = sources
        self._seed = seed
        self._exclude = exclude
        self._most_recent = most_recent
        self._places = array("Q")
        """Of each draw: its source, and its number among that source's tasks, as `number × sources + source`."""
        self._recent: dict[int, Draw] = {}
        self._orders: dict[int, tuple[int, array[int]]] = {}
        self._num_taken = [0] * len(sources)
        self._num_draws = [0] * len(sources)

    def draw(self, number: int) -> Draw:
        """Draw number `number`; earlier draws are made first where they are missing."""
        while len(self._places) <= number:
            which = self._next_source()
            self._keep(Draw(len(self._places), self._sources[which], self._next_task(which)))
            self._places.append((self._num_taken[which] - 1) * len(self._sources) + which)
        if number not in self._recent:
            taken, which = divmod(self._places[number], len(self._sources))
            self._keep(Draw(number, self._sources[which], self._task(which, taken)))
        return self._recent[number]

    def _keep(self, draw: Draw) -> None:
        self._recent[draw.number] = draw
        if len(self._recent) > self._most_recent:
            del self._recent[next(iter(self._recent))]

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
        return domain.task("train", self._seed, self._order(which, epoch, size)[place])

    def _order(self, which: int, epoch: int, size: int) -> "array[int]":
        """In which order a finite source is gone through; the newest one of each source is kept."""
        kept = self._orders.get(which)
        if kept is None or kept[0] != epoch:
            order = array("Q", range(size))
            random.Random(derive(self._seed, which, epoch)).shuffle(order)
            kept = self._orders[which] = (epoch, order)
        return kept[1]


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
