"""Who lives in a room: states, memory and descent, read from a `/proc` that only the keeper holds."""

import contextlib
import os
import signal
import time
from typing import Final

from burnish.sandbox.inside.room import Room

STANDSTILL_S: Final = 0.5


def comes_to_rest(target: Room) -> bool:
    """Wait some time for every process to take its SIGSTOP; whether all have."""
    deadline = time.monotonic() + STANDSTILL_S
    while any(_state(target.fds["proc"], pid) not in b"TtZX" for pid in target.pids()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _read(proc: int, path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY, dir_fd=proc)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return os.read(fd, 4096)
    except ProcessLookupError:
        return b""
    finally:
        os.close(fd)


def _state(proc: int, pid: int) -> bytes:
    return _read(proc, f"{pid}/stat").rpartition(b") ")[2][:1]


def memory_kb(proc: int, pid: int) -> int:
    """Memory of its own that a process holds; 0 if it has gone."""
    lines = [line.split() for line in _read(proc, f"{pid}/status").splitlines() if line.startswith((b"RssA", b"RssS"))]
    return sum(int(fields[1]) for fields in lines)


def kill_tree(root: int) -> None:
    """Kill a process with all that descends from it or belongs to its session."""
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(8):
            tree = _tree(proc, root)
            for pid in tree:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not tree - {root}:
                return
    finally:
        os.close(proc)


def _tree(proc: int, root: int) -> set[int]:
    """Whoever descends from `root` or is in its session, zombies aside."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for name in os.listdir(proc):
        fields = _read(proc, f"{name}/stat").rpartition(b") ")[2].split() if name.isdigit() else []
        if fields and fields[0] != b"Z":
            parents[int(name)] = int(fields[1])
            if int(name) == root or int(fields[3]) == root:
                found.add(int(name))
    has_grown = True
    while has_grown:
        below = {pid for pid, parent in parents.items() if parent in found} - found
        found |= below
        has_grown = bool(below)
    return found
