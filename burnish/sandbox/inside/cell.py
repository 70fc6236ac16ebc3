"""The cell of one job: pid 1 of its namespaces. It furnishes the place, gives up its rights, forks the
program's process, and both wait for the job: a cell is made ahead, but serves one job only. Then it
watches the tree, reports how it ended, and by dying kills what is left.

The cell says FURNISHED on its link once all walls are up. The job comes as one message with five
descriptors on the same link, which the program's process reads; the cell alone answers, at the end.

Limits: the kernel holds address space, file size, descriptors and CPU per process, and processes per
job (each job has a uid or a user namespace of its own). The watcher adds what rlimits cannot say: the
memory and CPU time of the whole tree, looked at every 20 ms, so a burst may overshoot by what can be
written in that time. All writable folders share one tmpfs of `disk_mb` and `num_files`.

What runs for each job is written for few page faults: each costs microseconds after a fork, and
they, not the system calls, are most of a job's price.

Covered: everything in `ResourceLimits` but `wall_s` and `output_bytes`, which the outside enforces.
Not covered: kernel memory (pipes, sockets), which the server's cgroup bounds where there is one.
"""

import io
import math
import mmap
import os
import resource
import select
import signal
import socket
import struct
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal, NamedTuple, NoReturn

from burnish.sandbox.inside import kernel, landlock, program, rlimits, seccomp

ANSWER_FD: Final = 3
JOB_UID: Final = 1000  # as seen within a user namespace
LOOK_EVERY_MS: Final = 20
MAX_DESCRIPTORS: Final = 256
NUM_JOB_DESCRIPTORS: Final = 5  # stdout, stderr, answer; then the job's text and its stdin, if they are long
MAX_MESSAGE_BYTES: Final = 1 << 16
WRITABLE: Final = {"work": "/work", "tmp": "/tmp", "shm": "/dev/shm"}
FURNISHED: Final = b"F"
KILL_FIRST: Final = b"500"  # of the kernel's memory killer: the job before the server that it was forked from


class Order(NamedTuple):
    """What the outside asks for, packed as `ORDER` over the control socket."""

    uid: int
    cpu_s: float
    memory_mb: int
    disk_mb: int
    num_files: int
    num_processes: int


ORDER: Final = struct.Struct("<qdqqqq")


class Payload(NamedTuple):
    """The job itself: each text and content behind its length, in eight bytes."""

    source: str
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the program ended, as JSON over the link. Not `began`: its files could not be written."""

    ending: Literal["exited", "killed", "timed_out", "over_memory"]
    exit_code: int | None
    began: bool = True


class Walls(NamedTuple):
    """What the server prepares once for all of its cells."""

    seccomp_filter: seccomp.Program
    landlock_abi: int
    has_user_namespace: bool


def live(order: Order, link_fd: int, walls: Walls) -> NoReturn:
    """Run one job from an empty place to its report."""
    kernel.set_signal(signal.SIGCHLD, int(signal.SIG_DFL))
    _furnish(order, walls.has_user_namespace)
    _give_up_rights(order, walls.has_user_namespace)
    landlock.enforce(walls.landlock_abi, WRITABLE.values())
    marks = mmap.mmap(-1, mmap.PAGESIZE)
    alarm = os.eventfd(0)
    seccomp.install(walls.seccomp_filter)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of rights clears it, so it comes last
    link = socket.socket(fileno=link_fd)
    child = os.fork()
    if child == 0:
        _become_program(order, link, marks, alarm)
    _tell(link, FURNISHED)
    ending, exit_code = _watch(child, order, alarm)
    if marks[0] and ending == "exited":
        ending = "over_memory"
    code, began = b"null" if exit_code is None else b"%d" % exit_code, b"true" if marks[1] else b"false"
    _tell(link, b'{"ending": "%b", "exit_code": %b, "began": %b}' % (ending.encode(), code, began))
    os._exit(0)


def _tell(link: socket.socket, word: bytes) -> None:
    try:  # noqa: SIM105 - `suppress` is a class written in Python, whose every page is a fault here
        link.send(word)
    except OSError:
        pass  # the outside did not need this cell


def _furnish(order: Order, has_user_namespace: bool) -> None:
    if has_user_namespace:
        _map_to_job_user()
    owner = JOB_UID if has_user_namespace else order.uid
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    size = f"size={order.disk_mb}m,nr_inodes={order.num_files + len(WRITABLE) + 1},mode=0711"
    kernel.mount("tmpfs", "/scratch", "tmpfs", flags, size)
    for name, place in WRITABLE.items():
        os.mkdir(f"/scratch/{name}", 0o700)
        os.chown(f"/scratch/{name}", owner, owner)
        kernel.mount(f"/scratch/{name}", place, None, kernel.MS_BIND)
    kernel.mount("proc", "/proc", "proc", flags | kernel.MS_NOEXEC, "subset=pid")
    kernel.set_hostname(b"sandbox")
    _die_before_the_server()


def _die_before_the_server() -> None:
    """Where a cgroup runs out of memory, the kernel's killer takes the job before the server that it came from."""
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    try:
        os.write(fd, KILL_FIRST)
    finally:
        os.close(fd)


def _map_to_job_user() -> None:
    for name, text in (("setgroups", "deny"), ("gid_map", f"{JOB_UID} 0 1"), ("uid_map", f"{JOB_UID} 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _give_up_rights(order: Order, has_user_namespace: bool) -> None:
    _limit(order)
    if has_user_namespace:  # in which all capabilities are back; else the server has dropped them for good
        kernel.keep_capabilities(lambda capability: False)
    else:
        os.setgroups([])
        os.setresgid(order.uid, order.uid, order.uid)
        os.setresuid(order.uid, order.uid, order.uid)
    kernel.hold_no_capability()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    os.umask(0o022)
    os.chdir("/work")


def _limit(order: Order) -> None:
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, order.disk_mb << 20),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS),
        (resource.RLIMIT_NPROC, order.num_processes + 1),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 256),
    ):
        rlimits.lower(name, value, value)


def _read_payload(source: BinaryIO) -> Payload:
    with source as file:
        text = _next(file)
        files: dict[str, bytes] = {}
        while name := _next(file):
            files[name.decode("utf-8", "surrogatepass")] = _next(file)
        return Payload(text.decode("utf-8", "surrogatepass"), files)


def _next(file: BinaryIO) -> bytes:
    return file.read(int.from_bytes(file.read(8), "big"))


def _write_files(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "xb") as file:
            file.write(content)


def _become_program(order: Order, link: socket.socket, marks: mmap.mmap, alarm: int) -> NoReturn:
    os.setpgid(0, 0)  # a group, so that kill(0) stays inside; no session, which would have the usual priority again
    kernel.set_signal(signal.SIGINT, signal.default_int_handler)
    cpu_s = max(1, math.ceil(order.cpu_s))
    message, fds, _, _ = socket.recv_fds(link, MAX_MESSAGE_BYTES, NUM_JOB_DESCRIPTORS)
    if not message:
        os._exit(0)  # the outside did not need this cell
    os.eventfd_write(alarm, 1)
    is_inline, has_stdin = message[0], message[1]
    payload = _read_payload(io.BytesIO(message[2:]) if is_inline else os.fdopen(fds[3], "rb"))
    _write_files(payload.files)
    stdin = fds[-1] if has_stdin else os.open("/dev/null", os.O_RDONLY)
    for target, source in enumerate((stdin, *fds[:3])):
        os.dup2(source, target + 64)
    for target in range(4):
        os.dup2(target + 64, target)
    kernel.close_from(4)
    os.environ["BURNISH_ANSWER_FD"] = str(ANSWER_FD)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    grown = (order.memory_mb << 20) + _address_space()
    rlimits.lower(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    rlimits.lower(resource.RLIMIT_AS, grown, grown)
    rlimits.lower(resource.RLIMIT_DATA, grown, grown)
    marks[1] = 1
    program.run(payload.source, lambda: marks.__setitem__(0, 1))


def _address_space() -> int:
    fd = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(fd, 256).split()[0]) * resource.getpagesize()
    finally:
        os.close(fd)


def _watch(child: int, order: Order, alarm: int) -> tuple[str, int | None]:
    """Wait for the job, asleep; then look at its tree until it ends."""
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    poll.register(alarm, select.POLLIN)
    poll.poll()
    poll.unregister(alarm)
    inherited_kb = -1
    while True:
        poll.poll(LOOK_EVERY_MS)
        ended = _reap(child)
        cpu_s = sum(os.times()[2:4])
        if ended is not None:
            return _describe(ended, spent_cpu=cpu_s >= order.cpu_s)
        if inherited_kb < 0:
            inherited_kb = _tree_kb(os.getpid(), 0)
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        if sum(_tree_kb(pid, inherited_kb) for pid in pids) > order.memory_mb << 10:
            return "over_memory", None
        if cpu_s + sum(map(_cpu_s, pids)) > order.cpu_s:
            return "timed_out", None


def _reap(child: int) -> int | None:
    """Reap whatever has ended; the program's wait status once it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid == 0:
            return None


def _describe(status: int, spent_cpu: bool) -> tuple[str, int | None]:
    if os.WIFEXITED(status):
        return "exited", os.WEXITSTATUS(status)
    by_cpu = os.WTERMSIG(status) == signal.SIGXCPU or (os.WTERMSIG(status) == signal.SIGKILL and spent_cpu)
    return "timed_out" if by_cpu else "killed", None


def _tree_kb(pid: int, inherited_kb: int) -> int:
    """Memory of one process beyond what it had at birth; 0 if it has gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            lines = [line.split() for line in file if line.startswith(("RssAnon", "RssShmem"))]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return max(0, sum(int(fields[1]) for fields in lines) - inherited_kb)


def _cpu_s(pid: int) -> float:
    """CPU time of one live process and the children it has reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
