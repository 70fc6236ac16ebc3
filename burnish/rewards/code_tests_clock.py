"""How long a process may take: its own processor time, and a wall far off for what only waits."""

import os
import time
from typing import Final

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Deadline:
    """Counts from its making; `check` raises `TimeoutError` once it has passed."""

    look_again_s: Final = 0.05

    def __init__(self, pid: int, cpu_s: float, wall_s: float) -> None:
        self._pid, self._cpu_s = pid, cpu_s
        self._cpu_until_s = cpu_used_s(pid) + cpu_s
        self._wall_until_s = time.monotonic() + wall_s

    def check(self) -> None:
        """Raise once the process has used up its time."""
        if cpu_used_s(self._pid) > self._cpu_until_s:
            raise TimeoutError(f"over {self._cpu_s:g} s of processor time")
        if time.monotonic() > self._wall_until_s:
            raise TimeoutError("waited for too long")


def cpu_used_s(pid: int) -> float:
    """Processor time of a live process and of the children that it has reaped; 0 once it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_S
