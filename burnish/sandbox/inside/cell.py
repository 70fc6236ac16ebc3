"""The cell of one job: pid 1 of its namespaces. It furnishes the place, gives up its rights, starts
the program as its child, watches the tree, reports how it ended, and by dying kills what is left.

Limits: the kernel holds address space, file size, descriptors and CPU per process, and processes per
job (each job has a uid or a user namespace of its own). The watcher adds what rlimits cannot say: the
memory and CPU time of the whole tree, looked at every 20 ms, so a burst may overshoot by what can be
written in that time. All writable folders share one tmpfs of `disk_mb` and `num_files`.

Covered: everything in `ResourceLimits` but `wall_s` and `output_bytes`, which the outside enforces.
Not covered: cgroups (kernel memory such as pipe and socket buffers is bounded by counts alone).
"""

import contextlib
import json
import math
import mmap
import os
import resource
import select
import signal
import socket
import sys
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, NoReturn

from burnish.sandbox.inside import kernel, program, seccomp

ANSWER_FD: Final = 3
JOB_UID: Final = 1000  # as seen within a user namespace
LOOK_EVERY_MS: Final = 20
NICENESS: Final = 10
MAX_DESCRIPTORS: Final = 256
WRITABLE: Final = {"work": "/work", "tmp": "/tmp", "shm": "/dev/shm"}
STARTED: Final = b"S"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the outside asks for, as JSON over the control socket."""

    uid: int
    cpu_s: float
    memory_mb: int
    disk_mb: int
    num_files: int
    num_processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """What the outside hands in: `link` is the cell's, the rest is the program's."""

    link: int
    payload: int
    stdin: int
    stdout: int
    stderr: int
    answer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The job itself."""

    source: str
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the program ended, as JSON over the link."""

    ending: Literal["exited", "killed", "timed_out", "over_memory"]
    exit_code: int | None


def live(order: Order, fds: Descriptors, seccomp_filter: seccomp.Program, in_user_namespace: bool) -> NoReturn:
    """Run one job from an empty place to its report."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _furnish(order, fds, in_user_namespace)
    _give_way()
    _give_up_rights(order, in_user_namespace)
    payload = _read_payload(fds.payload)
    _write_files(payload.files)
    marks = mmap.mmap(-1, mmap.PAGESIZE)
    seccomp.install(seccomp_filter)
    link = socket.socket(fileno=fds.link)
    link.send(STARTED)
    child = os.fork()
    if child == 0:
        _become_program(order, fds, payload, marks)
    report = _watch(child, order)
    if marks[0] and report.ending == "exited":
        report = replace(report, ending="over_memory")
    link.send(json.dumps(asdict(report)).encode())
    os._exit(0)


def _furnish(order: Order, fds: Descriptors, in_user_namespace: bool) -> None:
    if in_user_namespace:
        _map_to_job_user()
    owner = JOB_UID if in_user_namespace else order.uid
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    size = f"size={order.disk_mb}m,nr_inodes={order.num_files + len(WRITABLE) + 1},mode=0711"
    kernel.mount("tmpfs", "/scratch", "tmpfs", flags, size)
    for name, place in WRITABLE.items():
        os.mkdir(f"/scratch/{name}", 0o700)
        os.chown(f"/scratch/{name}", owner, owner)
        kernel.mount(f"/scratch/{name}", place, None, kernel.MS_BIND)
    for fd in (fds.stdout, fds.stderr, fds.answer):
        os.fchown(fd, owner, owner)  # so that /dev/stdout can be opened by name
    kernel.mount("proc", "/proc", "proc", flags | kernel.MS_NOEXEC, "subset=pid")
    kernel.set_hostname(b"sandbox")


def _give_way() -> None:
    """Run behind what samples and trains: its threads wait for each other, and lose 8 ms where a job takes a turn.

    Where the kernel groups tasks by session, the group's niceness is what counts; it may be changed ten times a
    second by those without rights, and a job that comes too soon runs at the usual priority.
    """
    os.nice(NICENESS)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as autogroup:
        autogroup.write(str(NICENESS))


def _map_to_job_user() -> None:
    for name, text in (("setgroups", "deny"), ("gid_map", f"{JOB_UID} 0 1"), ("uid_map", f"{JOB_UID} 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _give_up_rights(order: Order, in_user_namespace: bool) -> None:
    _limit(order)
    kernel.keep_capabilities(lambda capability: False)
    if not in_user_namespace:
        os.setgroups([])
        os.setresgid(order.uid, order.uid, order.uid)
        os.setresuid(order.uid, order.uid, order.uid)
    kernel.drop_capabilities()
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
        resource.setrlimit(name, (value, value))


def _read_payload(fd: int) -> Payload:
    with open(fd, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "big")))
        return Payload(source=head["source"], files={name: file.read(size) for name, size in head["files"]})


def _write_files(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "xb") as file:
            file.write(content)


def _become_program(order: Order, fds: Descriptors, payload: Payload, marks: mmap.mmap) -> NoReturn:
    os.setpgid(0, 0)  # a group, so that kill(0) stays inside; no session, which would have the usual priority again
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, source in enumerate((fds.stdin, fds.stdout, fds.stderr, fds.answer)):
        os.dup2(source, target + 64)
    for target in range(4):
        os.dup2(target + 64, target)
    kernel.close_from(4)
    os.environ["BURNISH_ANSWER_FD"] = str(ANSWER_FD)
    cpu_s = max(1, math.ceil(order.cpu_s))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    grown = (order.memory_mb << 20) + _address_space()
    resource.setrlimit(resource.RLIMIT_AS, (grown, grown))
    resource.setrlimit(resource.RLIMIT_DATA, (grown, grown))
    for name in [name for name in sys.modules if name == "burnish" or name.startswith("burnish.")]:
        del sys.modules[name]
    program.run(payload.source, lambda: marks.__setitem__(0, 1))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _watch(child: int, order: Order) -> Report:
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    own_kb = _tree_kb(os.getpid(), 0)
    while True:
        poll.poll(LOOK_EVERY_MS)
        ended = _reap(child)
        cpu_s = sum(os.times()[2:4])
        if ended is not None:
            return _describe(ended, spent_cpu=cpu_s >= order.cpu_s)
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        if sum(_tree_kb(pid, own_kb) for pid in pids) > order.memory_mb << 10:
            return Report(ending="over_memory", exit_code=None)
        if cpu_s + sum(map(_cpu_s, pids)) > order.cpu_s:
            return Report(ending="timed_out", exit_code=None)


def _reap(child: int) -> int | None:
    """Reap whatever has ended; the program's wait status once it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid == 0:
            return None


def _describe(status: int, spent_cpu: bool) -> Report:
    if os.WIFEXITED(status):
        return Report(ending="exited", exit_code=os.WEXITSTATUS(status))
    by_cpu = os.WTERMSIG(status) == signal.SIGXCPU or (os.WTERMSIG(status) == signal.SIGKILL and spent_cpu)
    return Report(ending="timed_out" if by_cpu else "killed", exit_code=None)


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
