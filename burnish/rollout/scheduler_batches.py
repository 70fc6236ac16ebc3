"""Which groups make the next batch, and when it is ready.

Groups are *outstanding* from admission until they train or end. With `S = max_staleness` and B groups a batch:

* "admission": the batch is the next B groups in the order in which they were admitted, those that ended left
  out. What it consists of then depends on the order of admission and on rewards, never on how long anything
  took: no bias to short replies.
* "due": the B ready groups that began earliest. A late group is passed by later ones, for S versions at most.
  If overdue groups are waited for, the batch is ready only if what is left over can still be trained in time:
  for each version u, of the outstanding groups that began at u or before, at most B (u + S - V) may be left
  after batch V. (Earliest deadline first meets all deadlines if any order does: Liu and Layland 1973, theorem
  7.) Bias: within a window of S versions, short replies train first.
* "ready": the B groups that were complete first. Favours short replies most; with `overdue = "drop"` for good.
"""

import heapq
from collections import Counter, deque

from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.scheduler_groups import Group


class BatchQueue:
    """The outstanding groups, as far as batches are concerned."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._live: dict[int, Group] = {}
        self._order: deque[int] = deque()
        self._num_front = 0
        self._ready: list[tuple[bool, int, int]] = []
        self._began: Counter[int] = Counter()
        self._ready_began: Counter[int] = Counter()
        self._restarted: dict[int, Group] = {}
        self.num_ready = 0

    def __len__(self) -> int:
        return len(self._live)

    @property
    def num_unresolved(self) -> int:
        """Outstanding groups that are not ready."""
        return len(self._live) - self.num_ready

    @property
    def num_in_order(self) -> int:
        """Ready groups that nothing is waited for before."""
        return self._num_front if self._config.batch_order == "admission" else self.num_ready

    def groups(self) -> list[Group]:
        """All that are outstanding, in order of admission."""
        return list(self._live.values())

    def admit(self, group: Group) -> None:
        """One more is outstanding; numbers rise."""
        self._live[group.number] = group
        self._order.append(group.number)
        if group.num_restarts:
            self._restarted[group.number] = group
        if group.version is not None:
            self.begin(group)
        if group.is_ready:
            self.add_ready(group)

    def begin(self, group: Group) -> None:
        """Its first token is of version `group.version`."""
        assert group.version is not None
        self._began[group.version] += 1

    def began_at(self, group: Group, version: int) -> None:
        """It has older tokens than it began with here: an earlier process sampled them."""
        assert group.version is not None and not group.is_ready
        _decrement(self._began, group.version)
        group.version = version
        self.begin(group)

    def add_ready(self, group: Group) -> None:
        """It is complete and may train."""
        assert group.version is not None and group.ready_number is not None
        by = group.ready_number if self._config.batch_order == "ready" else group.number
        if self._config.batch_order == "due":
            by = group.version << 40 | group.number
        heapq.heappush(self._ready, (not group.num_restarts, by, group.number))
        self._ready_began[group.version] += 1
        self.num_ready += 1
        self._advance()

    def end(self, group: Group) -> None:
        """It is outstanding no more."""
        del self._live[group.number]
        self._restarted.pop(group.number, None)
        if group.version is not None:
            _decrement(self._began, group.version)
            if group.is_ready:
                _decrement(self._ready_began, group.version)
        if group.is_ready:
            self.num_ready -= 1
            if not self._order or group.number < self._order[0]:
                self._num_front -= 1
        self._advance()

    def _advance(self) -> None:
        """Let the front reach up to the first group that is not resolved."""
        while self._order and ((group := self._live.get(self._order[0])) is None or group.is_ready):
            self._order.popleft()
            self._num_front += group is not None

    def is_ready(self, version: int) -> bool:
        """Whether a full batch may be taken for step `version`."""
        if self.num_in_order < self._config.batch_groups:
            return False
        if self._config.overdue == "restart":
            return not any(self._is_due(group, version) and not group.is_ready for group in self._restarted.values())
        return self._config.batch_order == "admission" or self.rest_is_in_time(version)

    def _is_due(self, group: Group, version: int) -> bool:
        bound = self._config.grouping(group.prompt.domain).max_staleness
        return group.version is not None and group.version + bound <= version

    def rest_is_in_time(self, version: int) -> bool:
        """Whether what batch `version` leaves over can still train in time, where that is waited for."""
        if self._config.overdue != "wait":
            return True
        if self._config.batch_order == "admission":
            return self._places_are_in_time(version)
        size, num_begun, num_ready = self._config.batch_groups, 0, 0
        for begun in sorted(self._began):
            num_begun += self._began[begun]
            num_ready += self._ready_began[begun]
            room = size * max(begun + self._config.max_staleness - version, 0)
            if num_begun - min(size, num_ready) > room:
                return False
        return True

    def _places_are_in_time(self, version: int) -> bool:
        """In order of admission, the n-th group from now on trains in n / B batches."""
        size, groups = self._config.batch_groups, list(self._live.values())
        return not any(
            group.version is not None and place >= size * (group.version + self._config.max_staleness - version)
            for place, group in enumerate(groups[min(size, self._num_front) :])
        )

    def take(self) -> list[Group]:
        """Remove and return the next batch: full, or all that is ready (in order)."""
        taken: list[Group] = []
        most = min(self._config.batch_groups, self.num_in_order)
        while self._ready and len(taken) < most:
            group = self._live.get(heapq.heappop(self._ready)[2])
            if group is not None and group.is_ready:
                taken.append(group)
                self.end(group)
        return sorted(taken, key=lambda group: group.number)


def _decrement(counter: Counter[int], key: int) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
