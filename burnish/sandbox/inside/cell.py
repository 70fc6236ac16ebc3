"""The cell of one slot: the place in which its jobs run, one after another, none of which finds a trace of another.

What a job could change is new for each: its process, which alone reads it; its writable folders, on one tmpfs; its
user, where there are users to give. What no job can change stays: mounts, the network namespace without an
interface, the IPC, UTS and cgroup namespaces; for want of rights, and since the filter has none of the calls. What
only some jobs change stays until one has: the PID namespace, until a job has started a thread or process, which
shows in the number of the next program, or has left one; the network namespace, until a socket has outlived its
job. Where jobs share their user with the namespace's first process, it is new for each as well.

The slot sees the job through, and reports on the job's link once nothing of it is alive. It holds no byte that a
job wrote, was given or chose, an exit code included, since later programs are copies of its memory.

Limits: the kernel holds address space, file size, descriptors and CPU per process, and processes per
job (each job has a uid or a user namespace of its own). The watch adds what rlimits cannot say: the
memory and CPU time of the whole tree, looked at every 20 ms, so a burst may overshoot by what can be
written in that time. All writable folders share one tmpfs of `disk_mb` and `num_files`.

Covered: everything in `ResourceLimits` but `wall_s` and `output_bytes`, which the outside enforces.
Not covered: kernel memory (pipes, sockets), which the server's cgroup bounds where there is one.
"""

import math
import mmap
import os
import resource
import select
import signal
import socket
import struct
import time
from contextlib import suppress
from typing import Final, NamedTuple

from burnish.sandbox.inside import entry, first, kernel, landlock, mounts, rlimits, seccomp, watching
from burnish.sandbox.inside.entry import Order

LOOK_EVERY_MS: Final = 20
WRITABLE: Final = {"work": "/work", "tmp": "/tmp", "shm": "/dev/shm"}
HANDLE: Final = b"P"
ORDER: Final = struct.Struct("<qdqqqq")
REPORT: Final = struct.Struct(f"<B?i4x{kernel.NUM_USAGES}q?")
"""Why the slot stopped the job, one of `watching`'s or 0; whether its program began; that one's wait status and usage;
whether it said that it had run out of memory."""
DYING_S: Final = 10.0
NO_SOCKET: Final = b"sockets: used 0\n"
CPU_OF_PROCESS: Final = 2  # in the number of a clock, below the process's
LINKS_OF_ONE_THREAD: Final = 3
LIMITED: Final = (
    resource.RLIMIT_CPU,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_AS,
    resource.RLIMIT_DATA,
)
NAMESPACES: Final = kernel.NEW_PLACE & ~kernel.CLONE_NEWPID


class Walls(NamedTuple):
    """What the server prepares once for all of its cells; `proc_fd` is the server's own `/proc`."""

    seccomp_filter: seccomp.Program
    landlock_abi: int
    has_user_namespace: bool
    proc_fd: int


class _First(NamedTuple):
    """The first process of the PID namespace, and that; `children_fd` lists its children, or is -1."""

    pid: int
    pidfd: int
    pids_fd: int
    children_fd: int


class Cell:
    """The namespaces of this process, from the first job on, and what it keeps in them."""

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self._own_pids = os.pidfd_open(os.getpid())
        self._first: _First | None = None
        self._limited: Order | None = None
        self._rules_fd = -1
        self._page = bytearray(mmap.PAGESIZE)
        self._began_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._confessions = mmap.mmap(-1, mmap.PAGESIZE)
        self._ended = kernel.Ended()
        self._first_look = kernel.Timer(LOOK_EVERY_MS)
        self._poll = select.poll()
        self._poll.register(self._first_look.fd, select.POLLIN)
        kernel.unshare(NAMESPACES)
        self._sockets_fd = self._open_proc("self/net/sockstat")
        self._most = {name: rlimits.most(name) for name in LIMITED}
        self._ready = entry.Ready(
            limits=(),
            most_memory=min(self._most[resource.RLIMIT_AS], self._most[resource.RLIMIT_DATA]),
            began_fd=self._began_fd,
            confessions=self._confessions,
            start_watch=self._first_look.start,
            restrict_files=None,
            install_filter=seccomp.ready_to_install(walls.seccomp_filter),
            be_dumpable=kernel.ready_prctl(kernel.PR_SET_DUMPABLE, 1),
            last_pid_fd=self._open_proc("sys/kernel/ns_last_pid", os.O_WRONLY),
            has_user_namespace=walls.has_user_namespace,
        )

    def run(self, order: Order, link: socket.socket) -> None:
        """Ready the place, hand out its handle, see one job through, and report."""
        self._furnish(order)
        child = self._start(order, link)
        assert self._first is not None
        with suppress(OSError):  # the outside gave it up
            socket.send_fds(link, [HANDLE], [self._first.pidfd])
        stopped = self._watch(child, order)
        if stopped or not self._is_left_empty():
            self._end_pids()
        with suppress(OSError), memoryview(self._confessions) as confessions:
            link.sendmsg([bytes([stopped, self._has_begun()]), self._ended, confessions[: entry.OVER_MEMORY + 1]])
        link.close()
        self._clear()

    def _limits(self, order: Order) -> entry.Limits:
        cpu_s = max(1, math.ceil(order.cpu_s))
        wanted = (
            (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
            (resource.RLIMIT_FSIZE, order.disk_mb << 20, order.disk_mb << 20),
            (resource.RLIMIT_NPROC, order.num_processes, order.num_processes),
        )
        return tuple((name, (min(soft, self._most[name]), min(hard, self._most[name]))) for name, soft, hard in wanted)

    # The folders.

    def _furnish(self, order: Order) -> None:
        if order._replace(uid=0) != self._limited:
            self._limited = order._replace(uid=0)
            self._ready = self._ready._replace(limits=self._limits(order))
        owner = 0 if self._walls.has_user_namespace else order.uid
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        size = f"size={order.disk_mb}m,nr_inodes={order.num_files + len(WRITABLE) + 1},mode=0711"
        kernel.mount("tmpfs", "/scratch", "tmpfs", flags, size)
        for name, place in WRITABLE.items():
            os.mkdir(f"/scratch/{name}", 0o700)
            os.chown(f"/scratch/{name}", owner, owner)
            kernel.mount(f"/scratch/{name}", place, None, kernel.MS_BIND)
        if self._walls.landlock_abi:
            self._rules_fd = landlock.ruleset(self._walls.landlock_abi, WRITABLE.values())
            self._ready = self._ready._replace(restrict_files=landlock.ready_to_enforce(self._rules_fd))

    def _clear(self) -> None:
        self._ended.wipe()
        self._confessions[:] = bytes(mmap.PAGESIZE)
        _close(self._rules_fd)
        self._rules_fd = -1
        for place in (*WRITABLE.values(), "/scratch"):
            kernel.unmount(place)

    # The processes.

    def _start(self, order: Order, link: socket.socket) -> int:
        """Fork the program, as the first that was ever started beside the first process of its PID namespace."""
        for _ in range(2):
            if self._first is None:
                self._begin_pids()
            child = self._fork(order, link)
            if child and os.path.exists(f"/proc/{entry.PID}"):
                return child
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            self._end_pids()
        raise OSError(f"the first program of a PID namespace is not number {entry.PID} in it")

    def _fork(self, order: Order, link: socket.socket) -> int:
        """Fork one program; 0 where the namespace is dying, since the outside has killed its first process."""
        try:
            child = os.fork()
        except OSError:
            return 0
        if child == 0:
            entry.enter(order, link, self._ready)
        return child

    def _begin_pids(self) -> None:
        mounts.enter(self._own_pids, kernel.CLONE_NEWPID)
        begin_fd = os.eventfd(0)
        heard, told = os.pipe()
        forked = kernel.clone(kernel.CLONE_NEWPID, signal.SIGCHLD, has_hooks=False)
        if forked.pid == 0:
            first.live(begin_fd, told, self._walls.seccomp_filter)
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
            pids_fd=self._open_proc("self/ns/pid_for_children"),
            children_fd=self._open_proc(f"{forked.pid}/task/{forked.pid}/children"),
        )

    def _end_pids(self) -> None:
        """Kill all that is in there, and wait until it is gone."""
        assert self._first is not None
        ended, self._first = self._first, None
        os.kill(ended.pid, signal.SIGKILL)
        _reap_until_gone(ended.pidfd)
        kernel.unmount("/proc")
        for fd in (ended.pidfd, ended.pids_fd, ended.children_fd):
            _close(fd)

    def _has_begun(self) -> bool:
        """Whether the last program began; asked once of each."""
        try:
            return os.eventfd_read(self._began_fd) == entry.BEGAN
        except BlockingIOError:
            return False

    def _is_left_empty(self) -> bool:
        """Whether nothing runs or is bound that the job had started; a network that is not empty is replaced."""
        assert self._first is not None
        has_sockets, has_children = self._has_sockets(), self._has_children(self._first.children_fd)
        self._page[:] = bytes(mmap.PAGESIZE)
        if has_sockets:
            kernel.unshare(kernel.CLONE_NEWNET)
            _close(self._sockets_fd)
            self._sockets_fd = self._open_proc("self/net/sockstat")
        return not (has_sockets or has_children or self._walls.has_user_namespace)

    # The watch.

    def _watch(self, child: int, order: Order) -> int:
        """Sleep until the program ends, or from its 20th millisecond on, look; what it was stopped for, or 0."""
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
            assert self._first is not None
            os.kill(self._first.pid, signal.SIGKILL)
        self._ended.wait(child)
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
        assert self._first is not None
        task = f"/proc/{entry.PID}/task"
        try:
            if os.stat(task).st_nlink != LINKS_OF_ONE_THREAD:
                return False
            children_fd = os.open(f"{task}/{entry.PID}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not (self._has_children(children_fd) or self._has_children(self._first.children_fd))
        finally:
            os.close(children_fd)
            self._page[:] = bytes(mmap.PAGESIZE)

    def _watch_closely(self, child_fd: int, order: Order) -> int:
        """Let another process look at the tree until the program ends; what that ended for first, or 0."""
        assert self._first is not None
        mounts.enter(self._own_pids, kernel.CLONE_NEWPID)
        forked = kernel.clone(0, signal.SIGCHLD, has_hooks=False)
        if forked.pid == 0:
            watching.watch(order, watching.memory_kb("self/status", self._walls.proc_fd))
        mounts.enter(self._first.pids_fd, kernel.CLONE_NEWPID)
        poll = select.poll()
        for fd in (child_fd, forked.pidfd):
            poll.register(fd, select.POLLIN)
        poll.poll()
        os.kill(forked.pid, signal.SIGKILL)
        _, status = os.waitpid(forked.pid, 0)
        os.close(forked.pidfd)
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0

    # The files of `/proc`, which start anew at each read; what is read is taken from one page and forgotten.

    def _has_children(self, children_fd: int) -> bool:
        return children_fd < 0 or os.preadv(children_fd, [self._page], 0) > 0

    def _has_sockets(self) -> bool:
        return self._sockets_fd < 0 or (
            os.preadv(self._sockets_fd, [self._page], 0) == 0 or not self._page.startswith(NO_SOCKET)
        )

    def _open_proc(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open a file of the server's `/proc`; -1 where this kernel has none such."""
        try:
            return os.open(path, flags | os.O_CLOEXEC, dir_fd=self._walls.proc_fd)
        except OSError:
            return -1


def _reap_until_gone(pidfd: int) -> None:
    """Reap whoever ends until that one has: a child in its namespace of which nobody knew would hold it for ever."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    deadline = time.monotonic() + DYING_S
    while not poll.poll(LOOK_EVERY_MS):
        kernel.reap()
        if time.monotonic() > deadline:
            raise OSError(f"a PID namespace was not gone within {DYING_S:.0f} s of its end")
    kernel.reap()


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)
