"""Contents of regular files, hole by hole: copied with their holes, and compared without reading them.

A sparse file may be far larger than all disks, and costs nothing to make. Only what the filesystem says is data
(SEEK_DATA, SEEK_HOLE) is read, of either file. `Budget` bounds what one comparison of trees reads in all: what
lies beyond it counts as different, so that a cap says too much and never hides a change.
"""

import errno
import heapq
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

CHUNK_BYTES: Final = 1 << 20
MOST_COMPARED_BYTES: Final = 1 << 30


class Extent(NamedTuple):
    """A stretch of a file that holds data."""

    start: int
    end: int


@dataclass(slots=True)
class Budget:
    """How many bytes may still be read."""

    left: int = MOST_COMPARED_BYTES


def extents(fd: int, size: int) -> Iterator[Extent]:
    """Where a file has data, in order; the descriptor's position moves."""
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # which says that only a hole follows
                raise
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield Extent(start, min(at, size))


def copy(source: str, target: str) -> None:
    """Copy a file into a new one, holes as holes."""
    with open(source, "rb", buffering=0) as reader, open(target, "xb", buffering=0) as writer:
        size = os.fstat(reader.fileno()).st_size
        os.ftruncate(writer.fileno(), size)
        for start, end in list(extents(reader.fileno(), size)):
            os.lseek(writer.fileno(), start, os.SEEK_SET)
            while start < end:
                sent = os.sendfile(writer.fileno(), reader.fileno(), start, min(CHUNK_BYTES, end - start))
                if not sent:
                    return  # it has become shorter
                start += sent


def is_same(old: str, new: str, budget: Budget) -> bool:
    """Whether two files of one size hold the same bytes, as far as the budget lets it be read."""
    with open(old, "rb", buffering=0) as one, open(new, "rb", buffering=0) as other:
        fds = one.fileno(), other.fileno()
        size = os.fstat(fds[0]).st_size
        for start, end in _united(heapq.merge(*(extents(fd, size) for fd in fds))):
            for at in range(start, end, CHUNK_BYTES):
                length = min(CHUNK_BYTES, end - at)
                budget.left -= length
                if budget.left < 0 or os.pread(fds[0], length, at) != os.pread(fds[1], length, at):
                    return False
    return True


def _united(ordered: Iterable[Extent]) -> Iterator[Extent]:
    """The same stretches without what lies in two of them."""
    reached = 0
    for start, end in ordered:
        if end > reached:
            yield Extent(max(start, reached), end)
            reached = end
