"""What a slot sees of a job while it runs: it sleeps until the program ends, or from its 20th millisecond on, looks.

The kernel holds address space, file size, descriptors and processor time of each process, and processes per job
(each job has a uid or a user namespace of its own). What rlimits cannot say is the memory and processor time of a
tree. One process alone is asked for its clock; where there are more, another process watches (`watching.py`).
"""

import os
import select
import signal
import time
from typing import Final

from burnish.sandbox.inside import entry, kernel, pids, proc_files, watching
from burnish.sandbox.inside.entry import Order

LOOK_EVERY_MS: Final = 20
CPU_OF_PROCESS: Final = 2  # in the number of a clock, below the process's
LINKS_OF_ONE_THREAD: Final = 3


class Look:
    """One slot's eyes; `start` is for the program itself to call, when it begins."""

    def __init__(self, inside: pids.Pids, proc: proc_files.ProcFiles, proc_fd: int) -> None:
        """`proc_fd` is the server's own `/proc`."""
        self._inside = inside
        self._proc = proc
        self._proc_fd = proc_fd
        self._first_look = kernel.Timer(LOOK_EVERY_MS)
        self._poll = select.poll()
        self._poll.register(self._first_look.fd, select.POLLIN)
        self.start = self._first_look.start

    def until_end(self, child: int, order: Order, ended: kernel.Ended) -> int:
        """See a program to its end, or end it with all others; what it was stopped for, one of `watching`'s, or 0."""
        child_fd = os.pidfd_open(child)
        self._poll.register(child_fd, select.POLLIN)
        stopped = 0
        if not any(fd == child_fd for fd, _ in self._poll.poll()):
            self._poll.unregister(self._first_look.fd)
            stopped = self._look(child, child_fd, order)
            self._poll.register(self._first_look.fd, select.POLLIN)
        self._poll.unregister(child_fd)
        os.close(child_fd)
        self._first_look.stop()
        if stopped:
            self._inside.kill()
        ended.wait(child)
        return stopped

    def _look(self, child: int, child_fd: int, order: Order) -> int:
        """See that one process keeps its processor time, since the rest is its rlimits'; more are watched closely."""
        cpu_clock = ~child << 3 | CPU_OF_PROCESS
        while self._is_one_process():
            if time.clock_gettime(cpu_clock) > order.cpu_s:
                return watching.OVER_TIME
            if self._poll.poll(LOOK_EVERY_MS):
                return 0
        return self._watch_closely(child_fd, order)

    def _is_one_process(self) -> bool:
        task = f"/proc/{entry.PID}/task"
        try:
            if os.stat(task).st_nlink != LINKS_OF_ONE_THREAD:
                return False
            children_fd = os.open(f"{task}/{entry.PID}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not (self._proc.has_text(children_fd) or self._inside.has_orphans())
        finally:
            os.close(children_fd)
            self._proc.forget()

    def _watch_closely(self, child_fd: int, order: Order) -> int:
        """Let another process look at the tree until the program ends; what that ended for first, or 0."""
        forked = self._inside.start_outside()
        if forked.pid == 0:
            watching.watch(order, watching.memory_kb("self/status", self._proc_fd))
        poll = select.poll()
        for fd in (child_fd, forked.pidfd):
            poll.register(fd, select.POLLIN)
        poll.poll()
        os.kill(forked.pid, signal.SIGKILL)
        _, status = os.waitpid(forked.pid, 0)
        os.close(forked.pidfd)
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
