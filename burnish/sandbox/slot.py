"""One slot of a fork server: it has one program's process ready, gives it one job, and orders the next.

That process, and the place around it, are made while nobody waits. What a job waits for is its own run. The order
names its limits, so what was made ahead serves a job of the same limits, or none.

The job travels on a link of its own as one message: small sources inline, larger ones and a stdin as sealed memfds,
outputs over pipes. No file of the host is used. The slot reports on the same link once nothing of the job is alive;
what it passes on is the kernel's, and is read here.

Whose fault a failure is decides what is trained on, so no job may make its own look like the sandbox's. That a program
began is known from a counter that the job's process has let go of by then. What a job could have brought about since
(a slot that dies while the server lives, a namespace that does not die, a pipe that stays open) is held against the
job, and ends the slot.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final, NamedTuple

from burnish.core.errors import SandboxError
from burnish.sandbox import host
from burnish.sandbox.cgroups import Group
from burnish.sandbox.inside import watching
from burnish.sandbox.inside.cell import ORDER, REPORT
from burnish.sandbox.inside.entry import Order
from burnish.sandbox.memfds import sealed
from burnish.sandbox.streams import DYING_S, Cancel, Collected, collect
from burnish.sandbox.types import Ending, Job, Outcome

FORK_S: Final = 30.0
OUTPUTS: Final = ("stdout", "stderr", "answer")
INLINE_BYTES: Final = 1 << 15
SPARE_BYTES: Final = 48 << 20  # of a group, for the server's and the kernel's own
GROUP_CPU_SHARE: Final = 1.1  # of the job's processor time, and
GROUP_CPU_S: Final = 0.5  # beyond it: for what the slot and its watcher need of the group's own
SPARE_PROCESSES: Final = 6  # the slot, the cell, and a cell that is going


_STOPPED: Final[dict[int, Ending]] = {watching.OVER_MEMORY: "over_memory", watching.OVER_TIME: "timed_out"}


class ZygoteDied(Exception):
    """The fork server went away under a job; a new one may be started and the job run again."""


class SlotDied(ZygoteDied):
    """A slot went away under a job that had been handed over, and its server lives."""


class _Report(NamedTuple):
    """What the slot said at the end: what it stopped the job for, its program's wait status and processor time.

    `ran_out` is what the program says of itself, and makes no ending better.
    """

    stopped: Ending | None
    began: bool
    status: int
    cpu_s: float
    ran_out: bool


class _Cell(NamedTuple):
    order: Order
    link: socket.socket


class Slot:
    """A slot from outside. One thread at a time uses it."""

    def __init__(self, control: socket.socket, pidfd: int, group: Group | None) -> None:
        self._control = control
        self._pidfd = pidfd
        self._group = group
        self._cell: _Cell | None = None

    def enter_group(self, pid: int) -> None:
        """Move the slot's process, whose number is `pid` here, into its group; do without where that is forbidden."""
        try:
            if self._group is not None:
                self._group.add(pid)
        except OSError:
            assert self._group is not None
            self._group.close()
            self._group = None

    def prepare(self, order: Order) -> None:
        """Order a cell, and wait for nothing."""
        self._discard()
        link, far_link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with far_link:
                if self._group is not None:
                    spare = SPARE_BYTES + (order.disk_mb << 20)
                    self._group.limit((order.memory_mb << 20) + spare, order.num_processes + SPARE_PROCESSES)
                socket.send_fds(self._control, [ORDER.pack(*order)], [far_link.fileno()])
        except OSError as error:
            link.close()
            raise ZygoteDied from error
        self._cell = _Cell(order, link)

    def fits(self, order: Order) -> bool:
        """Whether a cell with these limits is ready or on its way."""
        return self._cell is not None and self._cell.order._replace(uid=order.uid) == order

    def has_cell(self) -> bool:
        """Whether any cell is ready or on its way."""
        return self._cell is not None

    def is_alive(self) -> bool:
        """Whether it can still make cells."""
        return not has_hung_up(self._control)

    def run(
        self, job: Job, order: Order, cancel: Cancel, last_words: Callable[[], str], is_alive: Callable[[], bool]
    ) -> Outcome:
        """Run one job, blocking; `ZygoteDied` if the server or the slot died, which is closed then."""
        try:
            return self._run(job, order, cancel, last_words, is_alive)
        except BaseException:
            self.close()  # in the midst of whatever it is: no other job may meet it
            raise

    def _run(
        self, job: Job, order: Order, cancel: Cancel, last_words: Callable[[], str], is_alive: Callable[[], bool]
    ) -> Outcome:
        started = time.monotonic()
        if self._ran_out_of_memory() or not self.fits(order):  # a kill since the last job is none of this one's
            self.prepare(order)
        assert self._cell is not None
        link, self._cell = self._cell.link, None
        cpu_before_s = self._cpu_s()
        with link, ExitStack() as stack:
            pipes = _hand_over(job, link, stack)
            pidfd = receive_fd(link)
            stack.callback(os.close, pidfd)
            limits = job.limits
            killing = _Killing(pidfd)
            most_cpu_s = (cpu_before_s or 0.0) + limits.cpu_s * GROUP_CPU_SHARE + GROUP_CPU_S
            collected = collect(
                pipes,
                link.fileno(),
                cancel,
                killing.begin,
                limits.wall_s,
                limits.output_bytes,
                lambda: (self._cpu_s() or 0.0) > most_cpu_s,
            )
            is_gone = killing.is_over() and collected.is_gone
            report = _receive_report(link) if is_gone else None
        ran_out = self._ran_out_of_memory()
        if collected.stopped is None and is_gone and not ran_out:
            if report is None:
                raise SlotDied if is_alive() else ZygoteDied
            if not report.began:
                raise SandboxError(f"sandbox: the cell of a job could not be made: {last_words()}")
        outcome = _outcome(collected, report, limits.cpu_s, time.monotonic() - started)
        if ran_out and outcome.ending in ("exited", "killed"):
            outcome = replace(outcome, ending="over_memory", exit_code=None)
        cpu_after_s = self._cpu_s()
        if not is_gone:
            self.close()
        return outcome if cpu_after_s is None else replace(outcome, cpu_s=cpu_after_s - (cpu_before_s or 0.0))

    def close(self) -> None:
        """End the slot, its cell and its group; safe to call twice."""
        self._discard()
        self._control.close()
        if self._pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = -1
        if self._group is not None:
            self._group.kill()
            self._group.close()

    def _discard(self) -> None:
        if self._cell is not None:
            self._cell.link.close()  # it hears the end, and goes
            self._cell = None

    def _cpu_s(self) -> float | None:
        return None if self._group is None else self._group.cpu_s()

    def _ran_out_of_memory(self) -> bool:
        return self._group is not None and self._group.has_new_memory_kills()


def order_of(job: Job) -> Order:
    """Order a cell for this job, with a uid that no other live job on this host has."""
    limits = job.limits
    return Order(
        uid=host.next_job_uid(),
        cpu_s=limits.cpu_s,
        memory_mb=limits.memory_mb,
        disk_mb=limits.disk_mb,
        num_files=limits.num_files,
        num_processes=limits.num_processes,
    )


def has_hung_up(control: socket.socket) -> bool:
    """Whether the other end is gone."""
    try:
        return control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def receive_fd(link: socket.socket) -> int:
    """Wait for the handle of what was forked."""
    link.settimeout(FORK_S)
    try:
        _, fds, _, _ = socket.recv_fds(link, 1, 1)
    except (TimeoutError, OSError) as error:
        raise ZygoteDied from error
    if not fds:
        raise ZygoteDied
    return fds[0]


def _hand_over(job: Job, link: socket.socket, stack: ExitStack) -> dict[str, int]:
    read_ends: dict[str, int] = {}
    far_fds: list[int] = []
    try:
        for name in OUTPUTS:
            read_ends[name], write_end = os.pipe()
            far_fds.append(write_end)
            os.fchmod(write_end, 0o666)  # so that the job, whose uid is another, can open /dev/stdout by name
        payload = _payload(job)
        is_inline = len(payload) <= INLINE_BYTES
        far_fds += [sealed(content, "job") for content in ((b"" if is_inline else payload), job.stdin) if content]
        head = bytes([is_inline, bool(job.stdin)])
        with suppress(BrokenPipeError, ConnectionError):  # a program that died: what the slot says tells why
            socket.send_fds(link, [head + (payload if is_inline else b"")], far_fds)
    finally:
        stack.callback(_close_all, read_ends.values())
        _close_all(far_fds)
    return read_ends


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _receive_report(link: socket.socket) -> _Report | None:
    """Take what the slot said at the end; None if it died."""
    with suppress(ConnectionError):
        message = link.recv(REPORT.size)
        if message:
            reason, began, status, user_s, user_us, system_s, system_us, *_, ran_out = REPORT.unpack(message)
            cpu_s = user_s + system_s + 1e-6 * (user_us + system_us)
            return _Report(_STOPPED.get(reason), began, status, cpu_s, ran_out)
    return None


def _payload(job: Job) -> bytes:
    texts = [job.source.encode("utf-8", "surrogatepass")]
    for name, content in job.files.items():
        texts += [name.encode("utf-8", "surrogatepass"), content]
    return b"".join(part for text in texts for part in (len(text).to_bytes(8, "big"), text))


class _Killing:
    """The end of a job's PID namespace; one that has ended by itself is not killed for what it had written."""

    def __init__(self, pidfd: int) -> None:
        self._pidfd = pidfd
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def is_over(self) -> bool:
        """Whether what was killed is gone, so that the slot cannot take it for alive; waits for that."""
        return not self._has_begun or bool(select.select([self._pidfd], [], [], DYING_S)[0])


def _outcome(collected: Collected, report: _Report | None, most_cpu_s: float, wall_s: float) -> Outcome:
    ending, exit_code = ("killed", None) if report is None else _ending(report, most_cpu_s)
    if collected.stopped not in (None, "cancelled"):
        ending, exit_code = collected.stopped, None
    return Outcome(
        ending=ending,
        exit_code=exit_code,
        stdout=collected.stdout,
        stderr=collected.stderr,
        answer=collected.answer,
        wall_s=wall_s,
    )


def _ending(report: _Report, most_cpu_s: float) -> tuple[Ending, int | None]:
    if report.stopped is not None:
        return report.stopped, None
    if os.WIFEXITED(report.status):
        return ("over_memory", None) if report.ran_out else ("exited", os.WEXITSTATUS(report.status))
    by_signal = os.WTERMSIG(report.status)
    by_cpu = by_signal == signal.SIGXCPU or (by_signal == signal.SIGKILL and report.cpu_s >= most_cpu_s)
    return ("timed_out" if by_cpu else "killed"), None
