"""Members that wait to be sampled, in the order in which they start.

Members of groups that have begun go before groups that have not; restarted groups before others, then batch by
batch. Among what one batch needs, the longest starts first, which ends earliest (Graham 1969,
https://doi.org/10.1137/0117039: within 4/3 of the best). Members whose domain has no place are parked, and try
again one by one as places become free.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

from burnish.rollout.scheduler_groups import Group


class Entry(NamedTuple):
    """A member that waits; the smallest is next. `member` and `attempt` are 0 where a whole group waits."""

    turn: int
    minus_length: float
    number: int
    member: int
    attempt: int


class StartQueue:
    """Heaps with lazy deletion: an entry whose member has moved on is passed over."""

    def __init__(self, batch_groups: int) -> None:
        self._batch_groups = batch_groups
        self._groups: dict[int, Group] = {}
        self._fresh: list[Entry] = []
        self._begun: list[Entry] = []
        self._parked: dict[str, list[Entry]] = {}

    def admit(self, group: Group) -> None:
        """A group that has not begun waits; one that has begun is known."""
        self._groups[group.number] = group
        if group.version is None:
            heapq.heappush(self._fresh, Entry(self._turn(group), -group.predicted_tokens, group.number, 0, 0))

    def forget(self, group: Group) -> None:
        """Nothing of this group starts any more."""
        self._groups.pop(group.number, None)

    def queue(self, group: Group, index: int) -> None:
        """A member waits, by what is predicted of it now."""
        group.members[index].queued_tokens = group.predicted_tokens
        self.queue_as_before(group, index)

    def queue_as_before(self, group: Group, index: int) -> None:
        """A member waits, by what was predicted when it was queued first."""
        member = group.members[index]
        entry = Entry(self._turn(group), -member.queued_tokens, group.number, index, member.attempt)
        heapq.heappush(self._begun, entry)

    def next_member(self, is_full: Callable[[str], bool]) -> tuple[Group, int] | None:
        """Take the next member of a begun group; those of full domains are parked."""
        while self._begun:
            entry = heapq.heappop(self._begun)
            if (group := self._waiting(entry)) is None:
                continue
            if not is_full(group.prompt.domain):
                return group, entry.member
            heapq.heappush(self._parked.setdefault(group.prompt.domain, []), entry)
        return None

    def next_group(self) -> Group | None:
        """Take the next group that has not begun."""
        while self._fresh:
            group = self._groups.get(heapq.heappop(self._fresh).number)
            if group is not None and group.version is None:
                return group
        return None

    def unpark(self, domain: str) -> None:
        """A place of the domain may be free: the next that waited for it tries again."""
        parked = self._parked.get(domain, [])
        while parked:
            entry = heapq.heappop(parked)
            if self._waiting(entry) is not None:
                heapq.heappush(self._begun, entry)
                return

    def _waiting(self, entry: Entry) -> Group | None:
        """The group whose member still waits under this entry."""
        if (group := self._groups.get(entry.number)) is None:
            return None
        member = group.members[entry.member]
        return group if member.attempt == entry.attempt and member.phase in ("pending", "paused") else None

    def _turn(self, group: Group) -> int:
        return -1 if group.num_restarts else group.number // self._batch_groups
