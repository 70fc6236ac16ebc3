"""From the fork to the first line of a job: what a program's process does before it is the program.

It is born with the rights of the slot, in the slot's namespaces and in the PID namespace of its job. It gives the
rights up, waits for the job on the link, and runs it. The job's text is read here and nowhere before, so that it
is in no memory that a later job's process is a copy of.

What runs here is written for few page faults: each page that is written after a fork is copied, at some
microseconds, and that is most of a job's price. So calls come ready-made, and no function of Python's own library
that could be spared is called.
"""

import array
import mmap
import os
import resource
import socket
import struct
from typing import Final, NamedTuple, NoReturn

from burnish.sandbox.inside import kernel, program

PID: Final = 2
JOB_UID: Final = 1000  # as seen within a user namespace
ANSWER_FD: Final = 3
MAX_DESCRIPTORS: Final = 256
MAX_MESSAGE_BYTES: Final = 1 << 16
NUM_JOB_DESCRIPTORS: Final = 5  # stdout, stderr, answer; then the job's text and its stdin, if they are long
ROOM_FOR_DESCRIPTORS: Final = socket.CMSG_SPACE(NUM_JOB_DESCRIPTORS * array.array("i").itemsize)
CHUNK_BYTES: Final = 1 << 20
SIZE: Final = struct.Struct(">Q")
KILL_FIRST: Final = b"500"  # of the kernel's memory killer: the job before the server that it was forked from
BEGAN: Final = 1
OVER_MEMORY: Final = 0  # its place in the page
FILES_FAILED: Final = 1  # exit code
HELD_UNTIL: Final = 64  # above all descriptors that a job keeps


class Order(NamedTuple):
    """What the outside asks for."""

    uid: int
    cpu_s: float
    memory_mb: int
    disk_mb: int
    num_files: int
    num_processes: int


Limits = tuple[tuple[int, tuple[int, int]], ...]


class Ready(NamedTuple):
    """What the slot has made ready for its children.

    `began_fd` counts those that began: it is closed before a line of the job runs, so that no job can unsay it. The
    page `confessions` stays shared with the job, which can write there nothing that is to its gain. `proc_fd` is the
    server's `/proc`; `last_pid_fd` may be -1.
    """

    limits: Limits
    most_memory: int
    began_fd: int
    confessions: mmap.mmap
    start_watch: kernel.Ready
    restrict_files: kernel.Ready | None
    install_filter: kernel.Ready
    be_dumpable: kernel.Ready
    proc_fd: int
    last_pid_fd: int
    has_user_namespace: bool


def enter(order: Order, link: socket.socket, ready: Ready) -> NoReturn:
    """Become the program of one job."""
    if os.getpid() != PID:
        os._exit(0)  # the slot sees it too, and begins another namespace: the job must find this one's successor
    if ready.last_pid_fd >= 0:
        os.pwrite(ready.last_pid_fd, b"%d" % (PID - 1), 0)  # so that the next one in here has this number too
    _give_up_rights(order, ready)
    message, ancillary, _, _ = link.recvmsg(MAX_MESSAGE_BYTES, ROOM_FOR_DESCRIPTORS)
    if not message:
        os._exit(0)  # the outside did not need this one
    ready.start_watch()
    fds = array.array("i", ancillary[0][2])
    packed = message[2:] if message[0] else _read(fds[3])
    os.eventfd_write(ready.began_fd, BEGAN)  # what fails from here on is the job's own
    _take_streams(fds, has_stdin=bool(message[1]))
    source = _unpack(packed)
    ready.be_dumpable()
    grown = min((order.memory_mb << 20) + _address_space(), ready.most_memory)
    resource.setrlimit(resource.RLIMIT_AS, (grown, grown))
    resource.setrlimit(resource.RLIMIT_DATA, (grown, grown))
    confessions = ready.confessions
    program.run_prepared(source, lambda: confessions.__setitem__(OVER_MEMORY, 1))


def _give_up_rights(order: Order, ready: Ready) -> None:
    _set_of_own("oom_score_adj", KILL_FIRST, ready)
    os.setpgid(0, 0)  # a group, so that kill(0) stays inside; no session, which would have the usual priority again
    for name, both in ready.limits:
        resource.setrlimit(name, both)
    if ready.has_user_namespace:
        _enter_user_namespace(ready)
    else:
        os.setresgid(order.uid, order.uid, order.uid)
        os.setresuid(order.uid, order.uid, order.uid)  # and with it goes every capability
    if ready.restrict_files is not None and ready.restrict_files() < 0:
        raise OSError("landlock_restrict_self")
    if ready.install_filter() < 0:
        raise OSError("seccomp")
    os.chdir("/work")


def _set_of_own(name: str, text: bytes, ready: Ready) -> None:
    """Write a file of this process in the server's `/proc`: the job's own is read-only."""
    fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=ready.proc_fd)
    os.write(fd, text)
    os.close(fd)


def _enter_user_namespace(ready: Ready) -> None:
    kernel.unshare(kernel.CLONE_NEWUSER)
    for name, text in (("setgroups", b"deny"), ("gid_map", b"%d 0 1" % JOB_UID), ("uid_map", b"%d 0 1" % JOB_UID)):
        _set_of_own(name, text, ready)
    kernel.drop_capabilities()  # which a new namespace gives back, all of them


def _unpack(packed: bytes) -> str:
    """Write the job's files and give its source; each text stands behind its length, in eight bytes."""
    (size,) = SIZE.unpack_from(packed, 0)
    end = SIZE.size + size
    if end < len(packed):
        try:
            _write_files(packed, end)
        except OSError as error:  # more than its disk holds, or names that cannot all be
            os.write(2, f"the files of the job: {error}\n".encode(errors="replace"))
            os._exit(FILES_FAILED)
    return packed[SIZE.size : end].decode("utf-8", "surrogatepass")


def _write_files(packed: bytes, at: int) -> None:
    texts: list[bytes] = []
    while at < len(packed):
        (size,) = SIZE.unpack_from(packed, at)
        at += SIZE.size + size
        texts.append(packed[at - size : at])
    for name, content in zip(texts[::2], texts[1::2], strict=True):
        os.makedirs(os.path.dirname(name) or b".", exist_ok=True)
        with open(name, "xb") as file:
            file.write(content)


def _read(fd: int) -> bytes:
    return b"".join(iter(lambda: os.read(fd, CHUNK_BYTES), b""))


def _take_streams(fds: "array.array[int]", *, has_stdin: bool) -> None:
    stdin = fds[-1] if has_stdin else os.open("/dev/null", os.O_RDONLY)
    for target, source in enumerate((stdin, fds[0], fds[1], fds[2])):
        os.dup2(source, HELD_UNTIL + target)
    for target in range(ANSWER_FD + 1):
        os.dup2(HELD_UNTIL + target, target)
    os.closerange(ANSWER_FD + 1, MAX_DESCRIPTORS)


def _address_space() -> int:
    fd = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(fd, 256).split()[0]) * mmap.PAGESIZE
    finally:
        os.close(fd)
