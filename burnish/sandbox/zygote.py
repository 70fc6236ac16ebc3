"""One fork server, seen from outside: start it, hand it jobs, stop it.

Jobs travel over one SOCK_SEQPACKET socket, whose messages are atomic, so any number of threads may
submit at once. The job's text and input go as sealed memfds, its outputs come back over pipes, and a
socket pair per job carries the pidfd out and the cell's report after it. No file of the host is used.
"""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Final

from burnish.core.errors import SandboxError
from burnish.sandbox import bare, host
from burnish.sandbox.inside.cell import STARTED, Order, Report
from burnish.sandbox.inside.serve import READY
from burnish.sandbox.streams import Cancel, Collected, collect
from burnish.sandbox.types import Job, Outcome

START_S: Final = 120.0
FORK_S: Final = 30.0
HANG_UP_S: Final = 1.0


class ZygoteDied(Exception):
    """The fork server went away under a job; a new one may be started and the job run again."""


class Zygote:
    """A running fork server for one tuple of preloaded modules."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        self._preload = preload
        self._errors_fd = os.memfd_create("zygote-stderr")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        with theirs:
            self._process = subprocess.Popen(
                _command(theirs.fileno(), preload),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors_fd,
                pass_fds=[theirs.fileno()],
                env={},
                cwd="/",
                start_new_session=True,
            )

    def wait_until_ready(self, cancel: Cancel) -> None:
        """Wait for its first word; `SandboxError` with its last one if it fails."""
        ready, _, _ = select.select([self._control, cancel], [], [], START_S)
        word = self._control.recv(64) if self._control in ready else b""
        if word == READY:
            return
        self.stop(hang_up_s=0.0)
        if cancel in ready:
            raise SandboxError("sandbox: cancelled while the fork server started")
        raise SandboxError(
            f"sandbox: the fork server with preload {self._preload!r} did not start: {self._last_words()}; "
            f"if the system forbids it: {host.how_to_get_it()}"
        )

    @property
    def pid(self) -> int:
        """The process that holds the server's namespaces open."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it can still take jobs."""
        return self._process.poll() is None and not _has_hung_up(self._control)

    def run(self, job: Job, uid: int, cancel: Cancel) -> Outcome:
        """Run one job, blocking; `ZygoteDied` if the server died and not the job."""
        started = time.monotonic()
        with ExitStack() as stack:
            link, pipes = self._submit(job, uid, stack)
            pidfd, early = _receive_pidfd(link)
            stack.callback(os.close, pidfd)
            collected = collect(pipes, pidfd, cancel, lambda: _kill(pidfd), job.limits.wall_s, job.limits.output_bytes)
            report = early + _receive_rest(link)
        if collected.stopped is None and b"{" not in report and not self.is_alive():
            raise ZygoteDied
        if not report.startswith(STARTED) and collected.stopped is None:
            raise SandboxError(f"sandbox: the cell of a job could not be made: {self._last_words()}")
        return _outcome(collected, report.removeprefix(STARTED), time.monotonic() - started)

    def stop(self, hang_up_s: float = HANG_UP_S) -> None:
        """End the server and all of its jobs; safe to call twice."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(hang_up_s)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """Stop and let go of what the last jobs still needed."""
        self.stop()
        self._control.close()
        if self._errors_fd >= 0:
            os.close(self._errors_fd)
            self._errors_fd = -1

    def _submit(self, job: Job, uid: int, stack: ExitStack) -> tuple[socket.socket, Mapping[str, int]]:
        link, far_link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(link)
        with ExitStack() as far, far_link:
            inputs = [_sealed(_payload(job)), _sealed(job.stdin)]
            pipes = {name: os.pipe() for name in ("stdout", "stderr", "answer")}
            for read_end, write_end in pipes.values():
                stack.callback(os.close, read_end)
                far.callback(os.close, write_end)
            for fd in inputs:
                far.callback(os.close, fd)
            fds = [far_link.fileno(), *inputs, *(write_end for _, write_end in pipes.values())]
            try:
                socket.send_fds(self._control, [json.dumps(asdict(_order(job, uid))).encode()], fds)
            except OSError as error:
                raise ZygoteDied from error
        return link, {name: read_end for name, (read_end, _) in pipes.items()}

    def _last_words(self) -> str:
        size = os.fstat(self._errors_fd).st_size
        lines = os.pread(self._errors_fd, 1 << 14, max(0, size - (1 << 14))).decode(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


def _command(control_fd: int, preload: tuple[str, ...]) -> list[str]:
    plan = json.dumps(asdict(host.plan(control_fd, preload)))
    return [sys.executable, "-I", "-S", "-c", bare.start("launch"), plan]


def _receive_pidfd(link: socket.socket) -> tuple[int, bytes]:
    """Wait for the pidfd; the cell may speak on the same link before it comes."""
    link.settimeout(FORK_S)
    early = b""
    while True:
        try:
            message, fds, _, _ = socket.recv_fds(link, 1 << 12, 1)
        except (TimeoutError, ConnectionError) as error:
            raise ZygoteDied from error
        if fds:
            return fds[0], early
        if not message:
            raise ZygoteDied
        early += message


def _receive_rest(link: socket.socket) -> bytes:
    rest = b""
    while message := link.recv(1 << 12):
        rest += message
    return rest


def _has_hung_up(control: socket.socket) -> bool:
    try:
        return control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _sealed(content: bytes) -> int:
    fd = os.memfd_create("job", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def _payload(job: Job) -> bytes:
    head = {"source": job.source, "files": [(name, len(content)) for name, content in job.files.items()]}
    text = json.dumps(head).encode()
    return b"".join([len(text).to_bytes(8, "big"), text, *job.files.values()])


def _order(job: Job, uid: int) -> Order:
    limits = job.limits
    return Order(
        uid=uid,
        cpu_s=limits.cpu_s,
        memory_mb=limits.memory_mb,
        disk_mb=limits.disk_mb,
        num_files=limits.num_files,
        num_processes=limits.num_processes,
    )


def _kill(pidfd: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _outcome(collected: Collected, report: bytes, wall_s: float) -> Outcome:
    # A cell that died without a word was killed by what it ran into, such as the kernel's own memory killer.
    said = Report(**json.loads(report)) if report else Report(ending="killed", exit_code=None)
    stopped = None if collected.stopped == "cancelled" else collected.stopped
    return Outcome(
        ending=stopped or said.ending,
        exit_code=None if stopped else said.exit_code,
        stdout=collected.stdout,
        stderr=collected.stderr,
        answer=collected.answer,
        wall_s=wall_s,
    )
