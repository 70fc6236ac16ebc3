"""The control group of a family of places: what its rooms use together, of memory above all.

The keeper watches what the processes of a room hold. It cannot see memory that no process holds any more and that is
not free: pages of a shared mapping that were dropped, pipes, sockets, page tables. A group counts all of it. When it is
full the kernel kills processes of rooms, never the keeper, which it would kill last (`room.KILL_FIRST`).

The keeper is moved once, before anything runs; where no group can be made, a family does without.
"""

import contextlib
from pathlib import Path
from typing import Final

from burnish.sandbox import host
from burnish.sandbox.cgroups import Group
from burnish.sandbox.types import ResourceLimits

SPARE_BYTES: Final = 64 << 20  # for the keeper, and for what the kernel needs for it
SPARE_PROCESSES: Final = 16  # the starter, the keeper, holders of rooms, and what the keeper forks


def enter(starter_pid: int) -> Group | None:
    """Make a group and move a keeper into it, whose starter is that process; blocks."""
    group = host.make_group()
    if group is None:
        return None
    try:
        for pid in (starter_pid, *_children(starter_pid)):
            group.add(pid)
    except OSError:
        group.close()
        return None
    return group


def allow(group: Group, limits: ResourceLimits, num_places: int) -> None:
    """Let so many places use what each of them may; less than what is in use is left for the next time."""
    memory_bytes = num_places * (limits.memory_mb + limits.disk_mb << 20) + SPARE_BYTES
    with contextlib.suppress(OSError):
        group.limit(memory_bytes, num_places * (limits.num_processes + SPARE_PROCESSES))


def leave(group: Group) -> None:
    """Remove the group of a keeper that is gone; blocks."""
    group.kill()
    group.close()


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
