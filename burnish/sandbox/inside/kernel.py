"""The system calls that Python 3.11 does not offer, through ctypes. Linux on x86_64 and aarch64.

`PyDLL` keeps the interpreter lock across each call, which `clone` needs: the child is this very
thread, and must own the lock when it comes back.
"""

import ctypes
import functools
import importlib
import os
import platform
import select
import signal
from collections.abc import Callable
from typing import Final, NamedTuple

CLONE_PIDFD: Final = 0x0000_1000
CLONE_NEWTIME: Final = 0x0000_0080
CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000
NEW_PLACE: Final = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_NOATIME: Final = 1024
MS_NODIRATIME: Final = 2048
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4

CLOCK_MONOTONIC: Final = 1
NUM_USAGES: Final = 18  # seconds and microseconds of user and of system time, then fourteen more
CAPABILITY_VERSION_3: Final = 0x2008_0522
NUM_CAPABILITIES: Final = 64

MACHINES: Final = ("x86_64", "aarch64")


class _Numbers(NamedTuple):
    clone: int
    pivot_root: int
    close_range: int


_NUMBERS: Final = {"x86_64": _Numbers(56, 155, 436), "aarch64": _Numbers(220, 41, 436)}
_libc = ctypes.PyDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def call(number: int, what: str, *arguments: int | bytes) -> int:
    """Make a system call by its number; `OSError` names it by `what`."""
    longs = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    return _checked(int(_libc.syscall(ctypes.c_long(number), *longs)), what)


# What `signal.signal` wraps: it makes enumerations of what comes back, at fifty page faults after a fork.
set_signal: Final[Callable[[int, object], object]] = importlib.import_module("_signal").signal


Ready = Callable[[], int]
"""A call whose arguments are made: a fork's child that only calls it copies few pages. It answers -1 for an error."""


def ready_call(number: int, *arguments: int) -> Ready:
    """Make ready a system call with these numbers."""
    return functools.partial(_libc.syscall, *map(ctypes.c_long, (number, *arguments)))


def ready_prctl(option: int, *arguments: int) -> Ready:
    """Make ready a prctl with up to four numbers."""
    longs = map(ctypes.c_ulong, (*arguments, 0, 0, 0, 0)[:4])
    return functools.partial(_libc.prctl, ctypes.c_int(option), *longs)


class _TimerTimes(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")]


class Timer:
    """A descriptor that can be read once a time has passed; whoever holds it may start it."""

    def __init__(self, after_ms: int) -> None:
        self.fd = _checked(int(_libc.timerfd_create(CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)), "timerfd_create")
        self.start = self._ready(_TimerTimes(0, 0, 0, after_ms * 1_000_000))
        self._stop = self._ready(_TimerTimes(0, 0, 0, 0))

    def stop(self) -> None:
        """Let no time run, and have none passed."""
        _checked(self._stop(), "timerfd_settime")

    def _ready(self, times: _TimerTimes) -> Ready:
        return functools.partial(_libc.timerfd_settime, ctypes.c_int(self.fd), 0, ctypes.byref(times), None)


class Ended(ctypes.Structure):
    """How a child ended and what it used, as the kernel wrote it: `ENDED` reads it."""

    _fields_ = [("status", ctypes.c_int), ("usage", ctypes.c_long * NUM_USAGES)]

    def wait(self, pid: int) -> None:
        """Wait for that child."""
        found = _libc.wait4(ctypes.c_int(pid), ctypes.byref(self), 0, ctypes.byref(self, type(self).usage.offset))
        _checked(int(found), f"wait4({pid})")

    def wipe(self) -> None:
        """Let nothing of it stay in memory."""
        ctypes.memset(ctypes.byref(self), 0, ctypes.sizeof(self))


def reap() -> None:
    """Reap every child that has ended, and learn nothing of how."""
    while _libc.waitpid(-1, None, os.WNOHANG) > 0:
        pass


def unshare(flags: int) -> None:
    """Leave the named namespaces for new ones."""
    _checked(int(_libc.unshare(ctypes.c_int(flags))), f"unshare({flags:#x})")


class Forked(NamedTuple):
    """`pid` is 0 in the child, which gets no pidfd."""

    pid: int
    pidfd: int


def clone(flags: int, end_signal: int, *, has_hooks: bool = True) -> Forked:
    """Fork into new namespaces, as `os.fork` does as far as Python can tell.

    Without `has_hooks` the child does none of what Python does after a fork, such as new random state; it
    must have been forked by the only thread.
    """
    pidfd = ctypes.c_int(-1)
    number = _NUMBERS[platform.machine()].clone
    if has_hooks:
        ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(
        _libc.syscall(
            ctypes.c_long(number),
            ctypes.c_long(flags | CLONE_PIDFD | end_signal),
            ctypes.c_long(0),
            ctypes.byref(pidfd),
            ctypes.c_long(0),
            ctypes.c_long(0),
        )
    )
    if has_hooks and pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    elif has_hooks:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return Forked(_checked(pid, f"clone({flags:#x})"), pidfd.value)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount, bind or remount."""
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _checked(int(result), f"mount {source} on {target} ({kind or 'bind'}, {options})")


def unmount(target: str) -> None:
    """Detach a mount now; it goes when its last user goes."""
    _checked(int(_libc.umount2(os.fsencode(target), ctypes.c_int(MNT_DETACH))), f"umount {target}")


def enter_root(new_root: str) -> None:
    """Make `new_root` the root of this mount namespace and let go of the old one."""
    os.chdir(new_root)
    call(_NUMBERS[platform.machine()].pivot_root, "pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")


def close_from(first: int) -> None:
    """Close every descriptor from `first` up."""
    call(_NUMBERS[platform.machine()].close_range, "close_range", first, 0xFFFF_FFFF, 0)


def set_hostname(name: bytes) -> None:
    """Name this UTS namespace."""
    _checked(int(_libc.sethostname(name, ctypes.c_size_t(len(name)))), "sethostname")


def prctl(option: int, *arguments: int) -> int:
    """Call prctl with up to four numbers."""
    longs = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(int(_libc.prctl(ctypes.c_int(option), *longs)), f"prctl({option})")


def die_with(parent_fd: int) -> None:
    """Be killed when the process that forked this one ends; end now if it has, which a pidfd of it tells."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = select.poll()
    parent.register(parent_fd, select.POLLIN)
    if parent.poll(0):
        os._exit(1)


def keep_capabilities(is_kept: Callable[[int], bool]) -> None:
    """Drop all other capabilities from the bounding set, so that no exec brings them back."""
    for capability in range(NUM_CAPABILITIES):
        if not is_kept(capability):
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                return  # beyond the last one that this kernel knows


def drop_capabilities() -> None:
    """Hold no capability, now or after any exec."""
    keep_capabilities(lambda capability: False)
    hold_no_capability()


def hold_no_capability() -> None:
    """Hold no capability now; what an exec could bring back has been dropped before, and stays so for all children."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(int(_libc.capset(header, nothing)), "capset")
