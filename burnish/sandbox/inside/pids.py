"""The PID namespace that the jobs of a cell run in, as long as none has changed it, and its first process.

A program shows by its number whether anything was ever started beside the first process: only then is it not
`entry.PID`. The namespace ends with its first process, and the kernel lets that go once all others have been reaped;
so whoever ends is reaped, also a child of which nobody knew.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from burnish.sandbox.inside import entry, first, kernel, mounts, proc_files, seccomp

LOOK_EVERY_MS: Final = 20
DYING_S: Final = 10.0


class _First(NamedTuple):
    """The first process of the namespace, and that; `children_fd` lists its children, or is -1."""

    pid: int
    pidfd: int
    pids_fd: int
    children_fd: int


class Pids:
    """The namespace; none before the first program, and after `end`."""

    def __init__(self, seccomp_filter: seccomp.Program, proc: proc_files.ProcFiles) -> None:
        self._filter = seccomp_filter
        self._proc = proc
        self._own = os.pidfd_open(os.getpid())
        self._first: _First | None = None

    @property
    def handle(self) -> int:
        """The pidfd whose death is that of all in there."""
        assert self._first is not None
        return self._first.pidfd

    def start(self, enter: Callable[[], NoReturn]) -> int:
        """Fork a program, as the first that was ever started beside the first process."""
        for _ in range(2):
            if self._first is None:
                self._begin()
            child = _fork(enter)
            if child and os.path.exists(f"/proc/{entry.PID}"):
                return child
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            self.end()
        raise OSError(f"the first program of a PID namespace is not number {entry.PID} in it")

    def start_outside(self) -> kernel.Forked:
        """Fork a process in the slot's own namespace, which none of the job's can name; it dies with the slot."""
        assert self._first is not None
        mounts.enter(self._own, kernel.CLONE_NEWPID)
        forked = kernel.clone(0, signal.SIGCHLD, has_hooks=False)
        if forked.pid:
            mounts.enter(self._first.pids_fd, kernel.CLONE_NEWPID)
        else:
            kernel.die_with(self._own)
        return forked

    def has_orphans(self) -> bool:
        """Whether the first process has children: what a program left behind."""
        assert self._first is not None
        return self._proc.has_text(self._first.children_fd)

    def kill(self) -> None:
        """Kill all that is in there."""
        assert self._first is not None
        os.kill(self._first.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill all that is in there, and wait until it is gone."""
        self.kill()
        assert self._first is not None
        ended, self._first = self._first, None
        reap_until_gone(ended.pidfd)
        kernel.unmount("/proc")
        for fd in (ended.pidfd, ended.pids_fd, ended.children_fd):
            proc_files.close(fd)

    def _begin(self) -> None:
        mounts.enter(self._own, kernel.CLONE_NEWPID)
        begin_fd = os.eventfd(0)
        heard, told = os.pipe()
        forked = kernel.clone(kernel.CLONE_NEWPID, signal.SIGCHLD, has_hooks=False)
        if forked.pid == 0:
            kernel.die_with(self._own)
            first.live(begin_fd, told, self._filter)
        os.close(told)
        mounts.enter(forked.pidfd, kernel.CLONE_NEWPID)  # while it may be entered: it shuts itself off
        os.eventfd_write(begin_fd, 1)
        word = os.read(heard, 1)
        os.close(heard)
        os.close(begin_fd)
        if word != first.READY:
            raise OSError("the first process of a PID namespace did not begin")
        self._first = _First(
            pid=forked.pid,
            pidfd=forked.pidfd,
            pids_fd=self._proc.open("self/ns/pid_for_children"),
            children_fd=self._proc.open(f"{forked.pid}/task/{forked.pid}/children"),
        )


def _fork(enter: Callable[[], NoReturn]) -> int:
    """Fork one program; 0 where the namespace is dying, since the outside has killed its first process."""
    try:
        child = os.fork()
    except OSError:
        return 0
    if child == 0:
        enter()
    return child


def reap_until_gone(pidfd: int) -> None:
    """Reap whoever ends, until that one has."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    deadline = time.monotonic() + DYING_S
    while not poll.poll(LOOK_EVERY_MS):
        kernel.reap()
        if time.monotonic() > deadline:
            raise OSError(f"a PID namespace was not gone within {DYING_S:.0f} s of its end")
    kernel.reap()
