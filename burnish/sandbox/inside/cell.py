"""The cell of one slot: the place in which its jobs run, one after another, none of which finds a trace of another.

What a job could change is new for each: its process, which alone reads it; its writable folders, on one tmpfs; its
user, where there are users to give. What no job can change stays: mounts, the network namespace without an
interface, the IPC, UTS and cgroup namespaces; for want of rights, and since the filter has none of the calls. What
only some jobs change stays until one has: the PID namespace (`pids.py`), until a job has started a thread or process,
or has left one; the network namespace, until a socket has outlived its job. Where jobs share their user with the
namespace's first process, it is new for each as well.

The slot sees the job through (`looking.py`), and reports on the job's link once nothing of it is alive. It holds no
byte that a job wrote, was given or chose, an exit code included, since later programs are copies of its memory.

Covered: everything in `ResourceLimits` but `wall_s` and `output_bytes`, which the outside enforces; memory and CPU
time of the whole tree are looked at every 20 ms, so a burst may overshoot by what can be written in that time. All
writable folders share one tmpfs of `disk_mb` and `num_files`.
Not covered: kernel memory (pipes, sockets), which the server's cgroup bounds where there is one.
"""

import math
import mmap
import os
import resource
import socket
import struct
from contextlib import suppress
from typing import Final, NamedTuple

from burnish.sandbox.inside import entry, kernel, landlock, rlimits, seccomp
from burnish.sandbox.inside.entry import Order
from burnish.sandbox.inside.looking import Look
from burnish.sandbox.inside.pids import Pids
from burnish.sandbox.inside.proc_files import ProcFiles, close

WRITABLE: Final = {"work": "/work", "tmp": "/tmp", "shm": "/dev/shm"}
HANDLE: Final = b"P"
ORDER: Final = struct.Struct("<qdqqqq")
REPORT: Final = struct.Struct(f"<B?i4x{kernel.NUM_USAGES}q?")
"""Why the slot stopped the job, one of `watching`'s or 0; whether its program began; that one's wait status and usage;
whether it said that it had run out of memory."""
NO_SOCKET: Final = b"sockets: used 0\n"
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


class Cell:
    """The namespaces of this process, from the first job on, and what it keeps in them."""

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self._proc = ProcFiles(walls.proc_fd)
        self._pids = Pids(walls.seccomp_filter, self._proc)
        self._look = Look(self._pids, self._proc, walls.proc_fd)
        self._limited: Order | None = None
        self._rules_fd = -1
        self._began_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._confessions = mmap.mmap(-1, mmap.PAGESIZE)
        self._ended = kernel.Ended()
        kernel.unshare(NAMESPACES)
        self._sockets_fd = self._proc.open("self/net/sockstat")
        self._most = {name: rlimits.most(name) for name in LIMITED}
        self._ready = entry.Ready(
            limits=(),
            most_memory=min(self._most[resource.RLIMIT_AS], self._most[resource.RLIMIT_DATA]),
            began_fd=self._began_fd,
            confessions=self._confessions,
            start_watch=self._look.start,
            restrict_files=None,
            install_filter=seccomp.ready_to_install(walls.seccomp_filter),
            be_dumpable=kernel.ready_prctl(kernel.PR_SET_DUMPABLE, 1),
            proc_fd=walls.proc_fd,
            last_pid_fd=self._proc.open("sys/kernel/ns_last_pid", os.O_WRONLY),
            has_user_namespace=walls.has_user_namespace,
        )

    def run(self, order: Order, link: socket.socket) -> None:
        """Ready the place, hand out its handle, see one job through, and report."""
        self._furnish(order)
        child = self._pids.start(lambda: entry.enter(order, link, self._ready))
        with suppress(OSError):  # the outside gave it up
            socket.send_fds(link, [HANDLE], [self._pids.handle])
        stopped = self._look.until_end(child, order, self._ended)
        if stopped or not self._is_left_empty():
            self._pids.end()
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
        close(self._rules_fd)
        self._rules_fd = -1
        for place in (*WRITABLE.values(), "/scratch"):
            kernel.unmount(place)

    def _has_begun(self) -> bool:
        """Whether the last program began; asked once of each."""
        try:
            return os.eventfd_read(self._began_fd) == entry.BEGAN
        except BlockingIOError:
            return False

    def _is_left_empty(self) -> bool:
        """Whether nothing runs or is bound that the job had started; a network that is not empty is replaced."""
        has_sockets = not self._proc.starts_with(self._sockets_fd, NO_SOCKET)
        has_orphans = self._pids.has_orphans()
        self._proc.forget()
        if has_sockets:
            kernel.unshare(kernel.CLONE_NEWNET)
            close(self._sockets_fd)
            self._sockets_fd = self._proc.open("self/net/sockstat")
        return not (has_sockets or has_orphans or self._walls.has_user_namespace)
