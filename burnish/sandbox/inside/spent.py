"""How much processor time a tree of processes has had, as far as looks at it show.

The kernel adds the time of a child to its parent when that waits for it, and forgets it where the parent ignores
SIGCHLD. So what was seen of each process is added up here as well, and the larger sum counts; neither is ever more
than the truth. Not covered: children that ignored parents leave behind and that live between two looks.
"""

from collections.abc import Mapping, Sequence

OWN = slice(11, 13)
"""Of the fields of `/proc/PID/stat` behind the name: user and system time, in ticks."""
OF_REAPED = slice(13, 15)


class Spent:
    """What was seen so far."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._gone = 0

    def ticks(self, stats: Mapping[int, Sequence[bytes]]) -> int:
        """Look once more: the fields of whoever lives, by process number."""
        own = {pid: sum(map(int, fields[OWN])) for pid, fields in stats.items()}
        reaped = sum(sum(map(int, fields[OF_REAPED])) for fields in stats.values())
        self._gone += sum(ticks for pid, ticks in self._seen.items() if own.get(pid, -1) < ticks)
        self._seen = own
        return sum(own.values()) + max(reaped, self._gone)
