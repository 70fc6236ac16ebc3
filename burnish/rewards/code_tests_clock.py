"""How long a process may take: its own processor time, and a wall far off for what only waits.

Decisions: time for which it is ready and other processes have the processors does not count, or a busy host would fail
honest code. Linux says it of a process's first thread (`/proc/PID/schedstat`, Documentation/scheduler/sched-stats.rst).
"""

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
        self._wall_until_s = time.monotonic() + wall_s - kept_waiting_s(pid)

    def check(self) -> None:
        """Raise once the process has used up its time."""
        if cpu_used_s(self._pid) > self._cpu_until_s:
            raise TimeoutError(f"over {self._cpu_s:g} s of processor time")
        if time.monotonic() - kept_waiting_s(self._pid) > self._wall_until_s:
            raise TimeoutError("waited for too long")


def cpu_used_s(pid: int) -> float:
    """Processor time of a live process and of the children that it has reaped; 0 once it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def kept_waiting_s(pid: int) -> float:
    """How long a live process was ready to run and had no processor; 0 once it is gone, or where nobody counts it."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
