"""The system-call filter of a job, built here as BPF: no library is needed.

Everything that Python programs use passes; what opens the kernel's wider surface answers EPERM, and
what the filter has never heard of answers ENOSYS. Sockets are an allow-list of one family, AF_UNIX:
a network namespace alone leaves AF_VSOCK open before Linux 7.0.

Blocked although harmless in itself: memfd, SysV and POSIX queues and shared memory, since their pages
escape the limits on files and address space (`/dev/shm` stays); `prlimit` on other processes, which
would let a job strangle the watcher that shares its uid. What the whole host shares and no namespace divides is
closed as well: slots for asynchronous I/O, huge pages, core scheduling. `sync` and `syncfs` say that they have done
it, since all that a job can write is memory, and so does whoever lowers the limit on core files, which `rlimits`
has set for good. `clone3` answers ENOSYS because its flags lie
in memory where a filter cannot see them; C libraries then use `clone`.

Covered: x86_64 (x32 refused), aarch64. Not covered: an allow-list of all system calls.
"""

import ctypes
import errno
import platform
import resource
import socket
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from burnish.sandbox.inside import kernel

ALLOW: Final = 0x7FFF_0000
ERRNO: Final = 0x0005_0000
KILL_PROCESS: Final = 0x8000_0000

LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
JUMP_EQUAL: Final = 0x15
JUMP: Final = 0x05
JUMP_AT_LEAST: Final = 0x35
JUMP_ANY_BIT: Final = 0x45
RETURN: Final = 0x06
MOST_JUMP: Final = 255  # of a conditional one

OFFSET_NUMBER: Final = 0
OFFSET_ARCHITECTURE: Final = 4
OFFSET_FIRST_ARGUMENT: Final = 16
OFFSET_SECOND_ARGUMENT: Final = 24
OFFSET_THIRD_ARGUMENT: Final = 32
OFFSET_FOURTH_ARGUMENT: Final = 40

NEW_NAMESPACE_FLAGS: Final = kernel.NEW_PLACE | kernel.CLONE_NEWUSER
CLONE_PARENT: Final = 0x8000
"""Makes a child of the caller's parent: of the slot, which would neither find nor reap it."""
MAP_HUGETLB: Final = 0x4_0000
PR_SCHED_CORE: Final = 62
TIOCSTI: Final = 0x5412
TIOCLINUX: Final = 0x541C
LAST_KNOWN_CALL: Final = 469  # file_setattr, Linux 6.17
SECCOMP_MODE_FILTER: Final = 2


class Numbers(NamedTuple):
    """The number of one system call on each machine; None where it does not exist."""

    x86_64: int | None
    aarch64: int | None


BLOCKED: Final = {
    "ptrace": Numbers(101, 117),
    "process_vm_readv": Numbers(310, 270),
    "process_vm_writev": Numbers(311, 271),
    "process_madvise": Numbers(440, 440),
    "process_mrelease": Numbers(448, 448),
    "kcmp": Numbers(312, 272),
    "pidfd_getfd": Numbers(438, 438),
    "io_uring_setup": Numbers(425, 425),
    "io_uring_enter": Numbers(426, 426),
    "io_uring_register": Numbers(427, 427),
    "userfaultfd": Numbers(323, 282),
    "bpf": Numbers(321, 280),
    "perf_event_open": Numbers(298, 241),
    "add_key": Numbers(248, 217),
    "request_key": Numbers(249, 218),
    "keyctl": Numbers(250, 219),
    "unshare": Numbers(272, 97),
    "setns": Numbers(308, 268),
    "mount": Numbers(165, 40),
    "umount2": Numbers(166, 39),
    "pivot_root": Numbers(155, 41),
    "chroot": Numbers(161, 51),
    "open_tree": Numbers(428, 428),
    "move_mount": Numbers(429, 429),
    "fsopen": Numbers(430, 430),
    "fsconfig": Numbers(431, 431),
    "fsmount": Numbers(432, 432),
    "fspick": Numbers(433, 433),
    "mount_setattr": Numbers(442, 442),
    "statmount": Numbers(457, 457),
    "listmount": Numbers(458, 458),
    "open_tree_attr": Numbers(467, 467),
    "memfd_create": Numbers(319, 279),
    "memfd_secret": Numbers(447, 447),
    "shmget": Numbers(29, 194),
    "msgget": Numbers(68, 186),
    "semget": Numbers(64, 190),
    "mq_open": Numbers(240, 180),
    "kexec_load": Numbers(246, 104),
    "kexec_file_load": Numbers(320, 294),
    "init_module": Numbers(175, 105),
    "finit_module": Numbers(313, 273),
    "delete_module": Numbers(176, 106),
    "reboot": Numbers(169, 142),
    "swapon": Numbers(167, 224),
    "swapoff": Numbers(168, 225),
    "name_to_handle_at": Numbers(303, 264),
    "open_by_handle_at": Numbers(304, 265),
    "fanotify_init": Numbers(300, 262),
    "fanotify_mark": Numbers(301, 263),
    "quotactl": Numbers(179, 60),
    "quotactl_fd": Numbers(443, 443),
    "acct": Numbers(163, 89),
    "settimeofday": Numbers(164, 170),
    "clock_settime": Numbers(227, 112),
    "clock_adjtime": Numbers(305, 266),
    "adjtimex": Numbers(159, 171),
    "syslog": Numbers(103, 116),
    "vhangup": Numbers(153, 58),
    "iopl": Numbers(172, None),
    "ioperm": Numbers(173, None),
    "modify_ldt": Numbers(154, None),
    "uselib": Numbers(134, None),
    "sysfs": Numbers(139, None),
    "personality": Numbers(135, 92),
    "move_pages": Numbers(279, 239),
    "migrate_pages": Numbers(256, 238),
    "lookup_dcookie": Numbers(212, 18),
    "nfsservctl": Numbers(180, 42),
    "sethostname": Numbers(170, 161),
    "setdomainname": Numbers(171, 162),
    "vmsplice": Numbers(278, 75),
    "io_setup": Numbers(206, 0),
}
DONE_ALREADY: Final = {"sync": Numbers(162, 81), "syncfs": Numbers(306, 267)}
SOCKET: Final = Numbers(41, 198)
SOCKETPAIR: Final = Numbers(53, 199)
CLONE: Final = Numbers(56, 220)
CLONE3: Final = Numbers(435, 435)
IOCTL: Final = Numbers(16, 29)
PRLIMIT: Final = Numbers(302, 261)
SETRLIMIT: Final = Numbers(160, 164)
PRCTL: Final = Numbers(157, 167)
MMAP: Final = Numbers(9, 222)
ARCHITECTURES: Final = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}


class Instruction(ctypes.Structure):
    """struct sock_filter."""

    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


def _load(offset: int) -> Instruction:
    return Instruction(LOAD, 0, 0, offset)


def _fail(code: int) -> Instruction:
    return Instruction(RETURN, 0, 0, ERRNO | code)


_ALLOWED: Final = Instruction(RETURN, 0, 0, ALLOW)
_DONE: Final = _fail(0)  # the call answers 0, and nothing was done


class _Span(NamedTuple):
    """From this number up to the next span's, what a call is answered."""

    first: int
    verdict: list[Instruction]


def _only_if_first_is(wanted: int, code: int) -> list[Instruction]:
    return [_load(OFFSET_FIRST_ARGUMENT), Instruction(JUMP_EQUAL, 0, 1, wanted), _ALLOWED, _fail(code)]


def _unless_first_is(refused: int, verdict: Instruction) -> list[Instruction]:
    return [_load(OFFSET_FIRST_ARGUMENT), Instruction(JUMP_EQUAL, 0, 1, refused), verdict, _ALLOWED]


def _prlimit() -> list[Instruction]:
    """Of one's own limits all but that on core files, which may be read: where the third argument, a pointer, is 0."""
    return [
        _load(OFFSET_FIRST_ARGUMENT),
        Instruction(JUMP_EQUAL, 1, 0, 0),
        _fail(errno.EPERM),
        _load(OFFSET_SECOND_ARGUMENT),
        Instruction(JUMP_EQUAL, 0, 4, resource.RLIMIT_CORE),
        _load(OFFSET_THIRD_ARGUMENT),
        Instruction(JUMP_EQUAL, 0, 3, 0),
        _load(OFFSET_THIRD_ARGUMENT + 4),
        Instruction(JUMP_EQUAL, 0, 1, 0),
        _ALLOWED,
        _DONE,
    ]


def _verdicts(machine: str) -> dict[int, list[Instruction]]:
    """What each call gets that is not simply allowed."""

    def of(call: Numbers) -> int | None:
        return call.x86_64 if machine == "x86_64" else call.aarch64

    found = {of(call): [_fail(errno.EPERM)] for call in BLOCKED.values()}
    found[of(CLONE3)] = [_fail(errno.ENOSYS)]
    found[of(SOCKET)] = found[of(SOCKETPAIR)] = _only_if_first_is(socket.AF_UNIX, errno.EAFNOSUPPORT)
    found |= {of(call): [_DONE] for call in DONE_ALREADY.values()}
    found[of(PRLIMIT)] = _prlimit()
    found[of(SETRLIMIT)] = _unless_first_is(resource.RLIMIT_CORE, _DONE)
    found[of(PRCTL)] = _unless_first_is(PR_SCHED_CORE, _fail(errno.EPERM))
    found[of(MMAP)] = [
        _load(OFFSET_FOURTH_ARGUMENT),
        Instruction(JUMP_ANY_BIT, 0, 1, MAP_HUGETLB),
        _fail(errno.EPERM),
        _ALLOWED,
    ]
    found[of(CLONE)] = [
        _load(OFFSET_FIRST_ARGUMENT),
        Instruction(JUMP_ANY_BIT, 0, 1, NEW_NAMESPACE_FLAGS | CLONE_PARENT),
        _fail(errno.EPERM),
        _ALLOWED,
    ]
    found[of(IOCTL)] = [
        _load(OFFSET_SECOND_ARGUMENT),
        Instruction(JUMP_EQUAL, 1, 0, TIOCSTI),
        Instruction(JUMP_EQUAL, 0, 1, TIOCLINUX),
        _fail(errno.EPERM),
        _ALLOWED,
    ]
    return {number: verdict for number, verdict in found.items() if number is not None}


def _spans(verdicts: dict[int, list[Instruction]]) -> list[_Span]:
    spans = [_Span(0, [_ALLOWED])]
    for number in sorted(verdicts):
        if spans[-1].first == number:
            spans.pop()
        spans += [_Span(number, verdicts[number]), _Span(number + 1, [_ALLOWED])]
    return [
        *(span for span in spans if span.first <= LAST_KNOWN_CALL),
        _Span(LAST_KNOWN_CALL + 1, [_fail(errno.ENOSYS)]),
    ]


def _decide(spans: Sequence[_Span]) -> list[Instruction]:
    """Halve until one is left: the kernel walks this for every number there is, each time that it is installed."""
    if len(spans) == 1:
        return spans[0].verdict
    half = len(spans) // 2
    below, above = _decide(spans[:half]), _decide(spans[half:])
    if len(below) <= MOST_JUMP:
        return [Instruction(JUMP_AT_LEAST, len(below), 0, spans[half].first), *below, *above]
    return [Instruction(JUMP_AT_LEAST, 0, 1, spans[half].first), Instruction(JUMP, 0, 0, len(below)), *below, *above]


def _instructions(machine: str) -> Iterator[Instruction]:
    yield _load(OFFSET_ARCHITECTURE)
    yield Instruction(JUMP_EQUAL, 1, 0, ARCHITECTURES[machine])
    yield Instruction(RETURN, 0, 0, KILL_PROCESS)
    yield _load(OFFSET_NUMBER)
    yield from _decide(_spans(_verdicts(machine)))


def build() -> Program:
    """Build the filter once; installing it is then one system call."""
    instructions = list(_instructions(platform.machine()))
    return Program(len(instructions), (Instruction * len(instructions))(*instructions))


def ready_to_install(program: Program) -> kernel.Ready:
    """Make ready to put the filter on whoever calls, and all that it starts; there is no way back."""
    return kernel.ready_prctl(kernel.PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program))


def install(program: Program) -> None:
    """Put the filter on this process and all that it starts; there is no way back."""
    kernel.prctl(kernel.PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program))
