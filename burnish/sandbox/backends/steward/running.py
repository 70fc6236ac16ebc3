"""Run one program or job as a child: feed it, read it, hold it to its deadline and its output cap.

Covered: deadline, output cap, endings, the answer descriptor, limits for each process, CPU time of the child's session
(looked at every 20 ms; a process that takes a session of its own has the limit of one process). What the child leaves
running in other sessions lives until the place stops.
"""

import base64
import contextlib
import ctypes
import math
import mmap
import os
import resource
import selectors
import signal
import sys
import time
from typing import Any, Final, NamedTuple, NoReturn

from burnish.sandbox.backends.steward import files
from burnish.sandbox.backends.steward.files import Request
from burnish.sandbox.inside import program
from burnish.sandbox.inside.spent import Spent

LOOK_EVERY_S: Final = 0.005
COUNT_EVERY_S: Final = 0.02
TICKS_A_S: Final = os.sysconf("SC_CLK_TCK")
DRAIN_S: Final = 0.2
CHUNK_BYTES: Final = 1 << 16
MAX_DESCRIPTORS: Final = 256
MAX_PENDING: Final = 256
ANSWER_FD: Final = 3
CORE_BYTES: Final = 1  # as in `inside/rlimits`: with 0, a program of the host's might be given the core
PR_SET_DUMPABLE: Final = 4
CAPABILITY_VERSION_3: Final = 0x2008_0522
OUTPUTS: Final = ("stdout", "stderr", "answer")


class Ended(NamedTuple):
    """What a child wrote, what it was stopped for, and its wait status."""

    written: dict[str, bytes]
    stopped: str | None
    status: int


def run(request: Request) -> dict[str, Any]:
    """Run what is asked for, to its end or its limits."""
    started = time.monotonic()
    marks = mmap.mmap(-1, mmap.PAGESIZE)
    for name, content in request["files"].items():
        files.write_bytes(request, name, base64.b64decode(content))
    pipes = {name: os.pipe() for name in ("stdin", *OUTPUTS)}
    child = os.fork()
    if child == 0:
        _become(request, [pipes["stdin"][0], *(pipes[name][1] for name in OUTPUTS)], marks)
    os.close(pipes["stdin"][0])
    for name in OUTPUTS:
        os.close(pipes[name][1])
    watched = _Watched(child, {name: pipes[name][0] for name in OUTPUTS}, pipes["stdin"][1], request)
    ended = watched.until(started + request["wall_s"])
    ending, exit_code = _described(ended, is_out_of_memory=marks[0] == 1)
    texts = {name: base64.b64encode(text).decode() for name, text in ended.written.items()}
    return {"ending": ending, "exit_code": exit_code, "wall_s": time.monotonic() - started, **texts}


def prctl(option: int, *arguments: int) -> int:
    """Call prctl; -1 if it fails."""
    longs = [ctypes.c_ulong(number) for number in (*arguments, 0, 0, 0, 0)[:4]]
    return int(ctypes.CDLL(None, use_errno=True).prctl(ctypes.c_int(option), *longs))


def hold_no_capability() -> None:
    """Empty every set of capabilities of this process."""
    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    ctypes.CDLL(None).capset(header, nothing)


def _become(request: Request, ends: list[int], marks: mmap.mmap) -> NoReturn:
    name = "the job"
    try:
        os.setsid()
        prctl(PR_SET_DUMPABLE, 1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for target, end in enumerate(ends):
            os.dup2(end, target + 64)
        for target in range(len(ends)):
            os.dup2(target + 64, target, inheritable=True)
        is_job = request["argv"] is None
        os.closerange(ANSWER_FD + 1 if is_job else ANSWER_FD, 1 << 12)
        os.chdir(files.real_path(request, request["cwd"]))
        os.umask(0o022)
        _limit(request, is_job)
        if is_job:
            _become_job(request, marks)
        name = request["argv"][0]
        os.execvpe(name, request["argv"], {**os.environ, **request["env"]})
    except Exception as error:  # noqa: BLE001 - told on stderr, as a shell does
        os.write(2, f"{name}: {error}\n".encode(errors="replace"))
    os._exit(127)


def _become_job(request: Request, marks: mmap.mmap) -> NoReturn:
    os.environ["BURNISH_ANSWER_FD"] = str(ANSWER_FD)
    source = base64.b64decode(request["source"]).decode("utf-8", "surrogatepass")
    for name in [name for name in sys.modules if name == "burnish" or name.startswith("burnish.")]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "Sources"]
    program.run(source, lambda: marks.__setitem__(0, 1))


def _limit(request: Request, is_job: bool) -> None:
    cpu_s = max(1, math.ceil(request["cpu_s"]))
    memory, disk = request["memory_mb"] << 20, request["disk_mb"] << 20
    with open("/proc/self/statm") as file:
        own = [int(pages) * mmap.PAGESIZE for pages in file.read().split()]
    limits = [
        (resource.RLIMIT_CORE, CORE_BYTES, CORE_BYTES),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_SIGPENDING, MAX_PENDING, MAX_PENDING),
        (resource.RLIMIT_FSIZE, disk, disk),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS, MAX_DESCRIPTORS),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_DATA, memory + own[5], memory + own[5]),
    ]
    if is_job:  # a Python job; other run-times reserve address space that they never touch
        limits.append((resource.RLIMIT_AS, memory + own[0], memory + own[0]))
    if request["num_processes"]:
        limits.append((resource.RLIMIT_NPROC, request["num_processes"] + 2, request["num_processes"] + 2))
    for name, soft, hard in limits:
        most = resource.getrlimit(name)[1]
        is_free = most == resource.RLIM_INFINITY
        resource.setrlimit(name, (soft if is_free else min(soft, most), hard if is_free else min(hard, most)))


class _Watched:
    """A running child and the pipes to it."""

    def __init__(self, child: int, outputs: dict[str, int], stdin: int, request: Request) -> None:
        self._child = child
        self._outputs = outputs
        self._stdin = stdin
        self._rest = memoryview(base64.b64decode(request["stdin"]))
        self._cap_bytes = int(request["output_bytes"])
        self._cpu_s = float(request["cpu_s"])
        self._spent = Spent()
        self._next_count = 0.0
        self._written = {name: bytearray() for name in outputs}
        self._stopped: str | None = None
        self._selector = selectors.DefaultSelector()

    def until(self, deadline: float) -> Ended:
        with self._selector:
            for name, end in self._outputs.items():
                os.set_blocking(end, False)
                self._selector.register(end, selectors.EVENT_READ, name)
            os.set_blocking(self._stdin, False)
            self._selector.register(self._stdin, selectors.EVENT_WRITE, "stdin")
            status = self._watch(deadline)
            self._drain(time.monotonic() + DRAIN_S)
        for end in self._outputs.values():
            os.close(end)
        written = {name: bytes(text[: self._cap_bytes]) for name, text in self._written.items()}
        return Ended(written, self._stopped, status)

    def _watch(self, deadline: float) -> int:
        while True:
            self._take(LOOK_EVERY_S)
            if self._stopped is None and (time.monotonic() > deadline or self._is_over_cpu()):
                self._stop("timed_out")
            pid, status = os.waitpid(self._child, os.WNOHANG)
            if pid:
                return status

    def _is_over_cpu(self) -> bool:
        if (now := time.monotonic()) < self._next_count:
            return False
        self._next_count = now + COUNT_EVERY_S
        stats = {pid: stat for pid in pids() if (stat := _stat(pid)) and int(stat[3]) == self._child}
        return self._spent.ticks(stats) > self._cpu_s * TICKS_A_S

    def _drain(self, deadline: float) -> None:
        """Take what still lies in the pipes of the dead child; who it left behind may write on for ever."""
        while self._take(0) and time.monotonic() < deadline:
            pass
        if self._stdin in self._selector.get_map():
            os.close(self._stdin)

    def _take(self, wait_s: float) -> int:
        if not self._selector.get_map():
            time.sleep(wait_s)
        num_bytes = 0
        for key, _ in self._selector.select(wait_s) if self._selector.get_map() else []:
            if key.data == "stdin":
                self._feed()
            else:
                num_bytes += self._read(key.data, key.fd)
        if self._stopped is None and sum(map(len, self._written.values())) > self._cap_bytes:
            self._stop("over_output")
        return num_bytes

    def _read(self, name: str, fd: int) -> int:
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:  # the child has taken back what it wrote
            return 0
        if not chunk:
            self._selector.unregister(fd)
        if self._stopped is None:
            self._written[name] += chunk
        return len(chunk)

    def _feed(self) -> None:
        try:
            self._rest = self._rest[os.write(self._stdin, self._rest[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:
            self._rest = self._rest[:0]  # it reads no more
        if not self._rest:
            self._selector.unregister(self._stdin)
            os.close(self._stdin)

    def _stop(self, reason: str) -> None:
        """Kill the child and all that is still in its session."""
        self._stopped = reason
        for _ in range(3):
            for pid in [pid for pid in pids() if _session(pid) == self._child] or [self._child]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)


def pids() -> list[int]:
    """All processes that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _session(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[3]) if stat else -1


def _stat(pid: int) -> list[bytes]:
    """What follows the name in `/proc/PID/stat`, the state first; nothing if the process has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _described(ended: Ended, is_out_of_memory: bool) -> tuple[str, int | None]:
    if ended.stopped:
        return ended.stopped, None
    if os.WIFEXITED(ended.status):
        return ("over_memory" if is_out_of_memory else "exited"), os.WEXITSTATUS(ended.status)
    return ("timed_out" if os.WTERMSIG(ended.status) == signal.SIGXCPU else "killed"), None
