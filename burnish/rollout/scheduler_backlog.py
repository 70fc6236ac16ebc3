"""Prompts that wait to be admitted: best first, and none for ever.

A prompt's rank is `log2(priority) + age / ageing_s - level × level_delay_s / ageing_s`. All ranks grow alike
with time, so the order of two prompts never changes and a heap with fixed keys does (O(log n) a prompt).
`log2(priority)` is cut to ± `MOST_DOUBLINGS`: a prompt is passed only by those that come within `(2
MOST_DOUBLINGS + level × level_delay_s / ageing_s) × ageing_s` after it.

A prompt with a deadline goes before all others from its latest start on.
"""

import heapq
import math
from collections.abc import Iterator
from typing import NamedTuple

from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.scheduler_types import Prompt

MOST_DOUBLINGS = 16.0


class Waiting(NamedTuple):
    """A prompt in the backlog. `key` orders, the smallest first."""

    key: float
    number: int
    prompt: Prompt
    level: int
    latest_start_s: float


def rank_key(priority: float, level: int, offered_s: float, config: SchedulerConfig) -> float:
    """The key of a prompt that was offered at that time."""
    doublings = math.log2(priority) if priority > 0 else -MOST_DOUBLINGS
    doublings = min(max(doublings, -MOST_DOUBLINGS), MOST_DOUBLINGS)
    return (offered_s + level * config.level_delay_s) / config.ageing_s - doublings


class Backlog:
    """A heap by key, and one by latest start for those that have a deadline."""

    def __init__(self) -> None:
        self._by_key: list[Waiting] = []
        self._by_latest: list[tuple[float, int]] = []
        self._waiting: dict[int, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(sorted(self._waiting.values(), key=lambda waiting: (waiting.key, waiting.number)))

    def push(self, waiting: Waiting) -> None:
        """Add a prompt; `number` is its own."""
        self._waiting[waiting.number] = waiting
        heapq.heappush(self._by_key, waiting)
        if waiting.latest_start_s < math.inf:
            heapq.heappush(self._by_latest, (waiting.latest_start_s, waiting.number))

    def pop(self, now_s: float) -> Waiting | None:
        """Take the next prompt: one whose latest start has come, else the best."""
        while self._by_latest and self._by_latest[0][1] not in self._waiting:
            heapq.heappop(self._by_latest)
        if self._by_latest and self._by_latest[0][0] <= now_s:
            return self._waiting.pop(heapq.heappop(self._by_latest)[1])
        while self._by_key:
            waiting = heapq.heappop(self._by_key)
            if waiting.number in self._waiting:
                return self._waiting.pop(waiting.number)
        return None
