"""Engines on a virtual clock: how far each member has come, and which ends next.

Each engine has a *token clock*: tokens that each of its members has got since the beginning. Members that run
together advance together, so a member ends when the clock reaches its start plus its length, whatever else
comes and goes; only the clock's rate changes. So a start or an end costs O(log n) (this is processor sharing by
virtual time: Parekh and Gallager 1993, sec. III).
"""

import heapq
from dataclasses import dataclass, field

from burnish.plan.cluster import Engines
from burnish.rollout.scheduler_types import Ticket


@dataclass(slots=True)
class Engine:
    """One replica. `stamp` counts changes of its rate: what was foreseen before the last one is no longer true."""

    clock: float = 0.0
    at_s: float = 0.0
    num: int = 0
    sum_of_starts: float = 0.0
    stamp: int = 0
    ends: list[tuple[float, Ticket]] = field(default_factory=list[tuple[float, Ticket]])


class Run:
    """One member on an engine."""

    __slots__ = ("engine", "length", "num_before", "oldest", "start_clock")

    def __init__(self, engine: int, start_clock: float, length: int, num_before: int, oldest: int) -> None:
        self.engine, self.start_clock, self.length = engine, start_clock, length
        self.num_before, self.oldest = num_before, oldest


class Fleet:
    """All engines."""

    def __init__(self, config: Engines) -> None:
        self._config = config
        self._engines = [Engine() for _ in range(config.num)]
        self._emptiest = [(0, index) for index in range(config.num)]
        self._times_s = [0.0, *(config.token_time_s(n) for n in range(1, config.slots + 1))]
        self._stands_until_s = self._stands_in_all_s = 0.0
        self.runs: dict[Ticket, Run] = {}
        self.num_tokens = 0.0
        """Sampled so far, those of stopped members too."""
        self.busy_s = 0.0
        """Slot-seconds in use."""

    def start(self, ticket: Ticket, length: int, num_before: int, oldest: int, now_s: float) -> int:
        """Put a member that will get so many tokens on the emptiest engine; returns which."""
        while True:
            num, index = heapq.heappop(self._emptiest)
            engine = self._engines[index]
            if engine.num == num:
                break
        self._advance(engine, now_s)
        self.runs[ticket] = Run(index, engine.clock, length, num_before, oldest)
        heapq.heappush(engine.ends, (engine.clock + length - num_before, ticket))
        engine.sum_of_starts += engine.clock - num_before
        self._changed(engine, index, engine.num + 1)
        return index

    def stop(self, ticket: Ticket, now_s: float) -> tuple[Run, int]:
        """Take a member away; returns it and the tokens that it has."""
        run = self.runs.pop(ticket)
        engine = self._engines[run.engine]
        self._advance(engine, now_s)
        engine.sum_of_starts -= run.start_clock - run.num_before
        self._changed(engine, run.engine, engine.num - 1)
        return run, min(run.length, run.num_before + int(engine.clock - run.start_clock + 0.5))

    def next_end(self, index: int, now_s: float) -> tuple[float, int, Ticket] | None:
        """When the engine's next member ends, under which stamp."""
        engine = self._engines[index]
        while engine.ends and not self._holds(index, *engine.ends[0]):
            heapq.heappop(engine.ends)
        if not engine.ends:
            return None
        target, ticket = engine.ends[0]
        begin_s = max(now_s, self._stands_until_s)
        return begin_s + max(0.0, target - engine.clock) * self._times_s[engine.num], engine.stamp, ticket

    def is_current(self, index: int, stamp: int) -> bool:
        """Whether nothing has changed since that end was foreseen."""
        return self._engines[index].stamp == stamp

    def stand_still(self, now_s: float, for_s: float) -> None:
        """All engines pause: they load new weights, or the learner has their place."""
        for index, engine in enumerate(self._engines):
            self._advance(engine, now_s)
            self._changed(engine, index, engine.num)
        until_s = max(self._stands_until_s, now_s + for_s)
        self._stands_in_all_s += until_s - max(self._stands_until_s, now_s)
        self._stands_until_s = until_s

    def stood_s(self, now_s: float) -> float:
        """How long the engines have stood still so far."""
        return self._stands_in_all_s - max(0.0, self._stands_until_s - now_s)

    def kv_used(self, now_s: float) -> float | None:
        """The share of memory for keys and values that is taken."""
        if self._config.kv_tokens is None:
            return None
        for engine in self._engines:
            self._advance(engine, now_s)
        held = sum(engine.num * engine.clock - engine.sum_of_starts for engine in self._engines)
        return held / (self._config.kv_tokens * len(self._engines))

    def _holds(self, index: int, end: float, ticket: Ticket) -> bool:
        """Whether the member still ends there then; one that was stopped may have gone on later, or elsewhere."""
        run = self.runs.get(ticket)
        return run is not None and run.engine == index and run.start_clock + run.length - run.num_before == end

    def _advance(self, engine: Engine, now_s: float) -> None:
        passed_s = now_s - max(engine.at_s, min(self._stands_until_s, now_s))
        if engine.num and passed_s > 0:
            num_tokens = passed_s / self._times_s[engine.num]
            engine.clock += num_tokens
            self.num_tokens += num_tokens * engine.num
            self.busy_s += passed_s * engine.num
        engine.at_s = now_s

    def _changed(self, engine: Engine, index: int, num: int) -> None:
        engine.num = num
        engine.stamp += 1
        if num < self._config.slots:
            heapq.heappush(self._emptiest, (num, index))
