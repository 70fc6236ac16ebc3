"""Which task comes next: a pure function of the seed, the draw's number, and the segments before it.

Sources take turns in proportion to their weights (`turns`), so that any stretch of draws is mixed and a resumed run
draws what an unbroken one would have. A finite source is gone through in a new random order each epoch. Prompts of
the evaluation are passed over.

A segment says what holds from a draw on: the share of each domain (of each name that sources are reported under;
within a name, sources divide it by their weights), which of a domain's tasks are favoured, and whether the sources go
back to where they stood at an earlier draw. Favoured tasks are thinned, not searched for: a task of weight w is drawn
with the chance w / (the domain's largest weight), by its number, and passed over otherwise. `aim` thins in the same
way, by the chance that a function gives to each task.

Decision: of an old draw only its place is kept, eight bytes; its task is made again if it is asked for. Memory
therefore grows with the draws and the size of a source by bytes, not by tasks.
"""

import random
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.seeds import derive
from burnish.core.types import Task
from burnish.domains import Domain
from burnish.rollout.turns import Turns

Weigh = Callable[[str, Task], float]
"""From the name that a task is reported under, and the task, to its chance."""
_MAX_PASSED_OVER = 1000
MOST_RECENT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An entry of the recipe and the domain that it opened."""

    entry: TaskEntry
    domain: Domain


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What holds from draw `first` on."""

    first: int
    shares: Mapping[str, float]
    """By the names that sources are reported under; a name that is not here has none."""
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """By name: by source or tag of a task, its weight; 1 for all others."""
    rewind_to: int | None = None
    """The sources go on from where they stood before that draw."""


class Draw(NamedTuple):
    """Draw number `number`: a task and the source that it is from."""

    number: int
    source: Source
    task: Task


class Mixture:
    """An endless sequence of training tasks."""

    def __init__(
        self, sources: Sequence[Source], *, seed: int, exclude: frozenset[str], most_recent: int = MOST_RECENT,
        segments: Sequence[Segment] = (),
    ) -> None:  # fmt: skip
        self._sources = sources
        self._seed = seed
        self._exclude = exclude
        self._most_recent = most_recent
        self._places = array("Q")
        """Of each draw: its source, and its number among that source's tasks, as `number × sources + source`."""
        self._recent: dict[int, Draw] = {}
        self._orders: dict[int, tuple[int, array[int]]] = {}
        self._num_taken = [0] * len(sources)
        self._turns = Turns([source.entry.weight for source in sources])
        self._targets: Mapping[str, Mapping[str, float]] = {}
        self._to_come = list(segments)
        self._aim: Callable[[int], Weigh] | None = None
        self._stood: list[tuple[int, Sequence[int]]] = [(0, tuple(self._num_taken))]
        """At the first draw of each segment: how many tasks of each source were taken."""

    @property
    def num_made(self) -> int:
        """The number of the first draw that nobody has asked for yet."""
        return len(self._places)

    def turn(self, segment: Segment) -> None:
        """Take up a segment that begins with a draw still to be made."""
        assert segment.first >= self.num_made, "draws that were made stay as they are"
        self._to_come.append(segment)

    def aim(self, weigh_for: Callable[[int], Weigh]) -> None:
        """Let tasks in by chances; `weigh_for` is asked for those of each draw, in the order of their numbers."""
        assert not self.num_made, "draws that were made stay as they are"
        self._aim = weigh_for

    def draw(self, number: int) -> Draw:
        """Draw number `number`; earlier draws are made first where they are missing."""
        while len(self._places) <= number:
            while self._to_come and self._to_come[0].first <= len(self._places):
                self._begin(self._to_come.pop(0))
            which = self._turns.next()
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

    def _begin(self, segment: Segment) -> None:
        if segment.rewind_to is not None:
            self._num_taken = self._taken_before(segment.rewind_to)
        self._stood.append((segment.first, tuple(self._num_taken)))
        self._targets = segment.targets
        whole: dict[str, float] = {}
        for source in self._sources:
            name = source.entry.report_name
            whole[name] = whole.get(name, 0.0) + source.entry.weight
        names = [source.entry.report_name for source in self._sources]
        self._turns.weigh(
            [
                segment.shares.get(name, 0.0) * source.entry.weight / whole[name]
                for name, source in zip(names, self._sources, strict=True)
            ]
        )

    def _taken_before(self, number: int) -> list[int]:
        """How many tasks of each source had been taken before a draw was made."""
        first, stood = next(mark for mark in reversed(self._stood) if mark[0] <= number)
        taken = list(stood)
        for place in self._places[first:number]:
            done, which = divmod(place, len(self._sources))
            taken[which] = done + 1
        return taken

    def _next_task(self, which: int) -> Task:
        source = self._sources[which]
        for _ in range(_MAX_PASSED_OVER):
            number = self._num_taken[which]
            task = self._task(which, number)
            self._num_taken[which] += 1
            if task.prompt_hash not in self._exclude and self._is_let_in(which, number, task):
                return task
        raise ConfigError(
            f"{source.entry.domain}: {_MAX_PASSED_OVER} training tasks in a row are held-out ones; "
            "widen the domain by its options, or lower num_eval"
        )

    def _is_let_in(self, which: int, number: int, task: Task) -> bool:
        """Whether a task survives the thinning of its domain; the number of the task decides, not the draw's."""
        name = self._sources[which].entry.report_name
        if self._aim and derive(self._seed, "aim", which, number) / 2**63 >= self._aim(self.num_made)(name, task):
            return False
        weights = self._targets.get(name)
        if not weights:
            return True
        weight = max([1.0, *[weights[place] for place in (task.source, *task.tags) if place in weights]])
        return derive(self._seed, "thin", which, number) / 2**63 < weight / max(weights.values())

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
    """The evaluation's tasks: `num_eval` of each source (at most `num`), each prompt once.

    Entries of one domain with other options may give one id to different tasks; a later one has its entry's place too.
    """
    draws: list[Draw] = []
    seen: set[str] = set()
    ids: set[str] = set()
    for place, source in enumerate(sources):
        size = source.domain.size("eval")
        wanted = source.entry.num_eval if num is None else min(num, source.entry.num_eval)
        kept = 0
        for index in range(wanted + _MAX_PASSED_OVER if size is None else size):
            if kept == wanted:
                break
            task = source.domain.task("eval", seed, index)
            if task.prompt_hash not in seen:
                seen.add(task.prompt_hash)
                named = replace(task, id=f"{task.id} of entry {place}") if task.id in ids else task
                ids.add(named.id)
                draws.append(Draw(len(draws), source, named))
                kept += 1
        if kept == 0:
            raise ConfigError(f"{source.entry.domain} has no held-out tasks")
    return draws
