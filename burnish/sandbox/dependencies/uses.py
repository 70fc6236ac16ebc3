"""Which layers of a cache are in use: one byte of one file for each, which whoever got the layer holds a lock on.

Decisions: a place sees its layers' own files, so a layer may go only when no process that got it lives. A process holds
what it got until it ends, by whatever means it ends: the kernel lets go then. One file and one descriptor serve all
layers of a cache. The locks are the process's own (POSIX), so that a fork has none, and nobody else may open the file.
Not covered: caches on network filesystems without locks; two layers whose keys begin with the same 56 bits, which
are in use together.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NAME: Final = ".uses"
NUM_DIGITS: Final = 14


@dataclass(slots=True, kw_only=True)
class _Uses:
    fd: int
    pid: int
    keys: set[str] = field(default_factory=set[str])


_known: dict[Path, _Uses] = {}


def hold(cache: Path, key: str) -> None:
    """Use a layer, be it there yet or not, until this process ends; waits while somebody removes it."""
    uses = _uses(cache)
    fcntl.lockf(uses.fd, fcntl.LOCK_SH, 1, _place(key))
    uses.keys.add(key)


@contextmanager
def unused(cache: Path, key: str) -> Iterator[bool]:
    """Whether nobody uses a layer; if so, nobody begins to before the end of the block."""
    uses = _uses(cache)
    if key in uses.keys:
        yield False
        return
    try:
        fcntl.lockf(uses.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
    except (BlockingIOError, PermissionError):
        yield False
        return
    try:
        yield True
    finally:
        fcntl.lockf(uses.fd, fcntl.LOCK_UN, 1, _place(key))


def _uses(cache: Path) -> _Uses:
    """The file, opened once in each process: to close it would let go of everything."""
    found = _known.get(cache.resolve())
    if found is None or found.pid != os.getpid():
        fd = os.open(cache / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        found = _known[cache.resolve()] = _Uses(fd=fd, pid=os.getpid())
    return found


def _place(key: str) -> int:
    return int(key[:NUM_DIGITS], 16)
