"""Which layers of a cache are in use: one byte of one file for each, which whoever got the layer holds a lock on.

Decisions: a place sees its layers' own files, so a layer may go only when no process that got it lives. A process holds
what it got until it ends, by whatever means it ends: the kernel lets go then. One file and one descriptor serve all
layers of a cache. The locks are the process's own (POSIX), so that a fork has none, and nobody else may open the file:
to close any descriptor of it would let go of everything. Between threads of one process such locks do nothing, so a
mutex stands before them.
Not covered: caches on network filesystems without locks; two layers whose keys begin with the same 56 bits, which
are in use together.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

NAME: Final = ".uses"
NUM_DIGITS: Final = 14


@dataclass(slots=True, kw_only=True)
class _Uses:
    fd: int
    places: set[int] = field(default_factory=set[int])
    mutex: threading.Lock = field(default_factory=threading.Lock)


class _Opener(NamedTuple):
    cache: Path
    pid: int


_known: dict[_Opener, _Uses] = {}


def hold(cache: Path, key: str) -> None:
    """Use a layer, be it there yet or not, until this process ends; waits while somebody removes it."""
    uses, place = _uses(cache), _place(key)
    with uses.mutex:
        fcntl.lockf(uses.fd, fcntl.LOCK_SH, 1, place)
        uses.places.add(place)


@contextmanager
def unused(cache: Path, key: str) -> Iterator[bool]:
    """Whether nobody uses a layer; if so, nobody begins to before the end of the block."""
    uses, place = _uses(cache), _place(key)
    with uses.mutex:
        if place in uses.places or not _try_alone(uses.fd, place):
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(uses.fd, fcntl.LOCK_UN, 1, place)


def _try_alone(fd: int, place: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _uses(cache: Path) -> _Uses:
    """The file, as this process has opened it; of two threads that do so at once, both use the first one's."""
    opener = _Opener(cache.resolve(), os.getpid())
    if opener not in _known:
        fd = os.open(cache / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _known.setdefault(opener, _Uses(fd=fd))
    return _known[opener]


def _place(key: str) -> int:
    return int(key[:NUM_DIGITS], 16)
