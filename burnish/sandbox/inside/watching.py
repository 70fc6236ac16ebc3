"""A second pair of eyes on a job that is not over soon: what its whole tree uses, which no rlimit can say.

A process of its own, which lives as long as the job: what it reads, such as the names that processes give themselves,
ends with it. It sits outside the job's PID namespace, so that no process of the job can name it.
"""

import os
import time
from typing import Final, NoReturn

from burnish.sandbox.inside.entry import Order
from burnish.sandbox.inside.spent import Spent

LOOK_EVERY_S: Final = 0.02
OVER_MEMORY: Final = 1
OVER_TIME: Final = 2
FIRST_PID: Final = "1"
TICKS_A_S: Final = os.sysconf("SC_CLK_TCK")


def watch(order: Order, inherited_kb: int) -> NoReturn:
    """Look at the tree until it uses more than the order says, and end with what that is."""
    spent = Spent()
    while True:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        used_kb = (memory_kb(f"/proc/{pid}/status") - inherited_kb for pid in pids if pid != FIRST_PID)
        if sum(max(0, each_kb) for each_kb in used_kb) > order.memory_mb << 10:
            os._exit(OVER_MEMORY)
        if spent.ticks({int(pid): fields for pid in pids if (fields := _stat(pid))}) > order.cpu_s * TICKS_A_S:
            os._exit(OVER_TIME)
        time.sleep(LOOK_EVERY_S)


def memory_kb(path: str, proc_fd: int | None = None) -> int:
    """Private and shared memory of one process, less what is mapped from files; 0 if it has gone."""
    try:
        with open(os.open(path, os.O_RDONLY, dir_fd=proc_fd), errors="replace") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(("RssAnon", "RssShmem")))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _stat(pid: str) -> list[bytes]:
    """What follows the name in `/proc/PID/stat`, the state first; nothing if the process has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
