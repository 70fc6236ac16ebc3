"""Read what a job writes, with a cap and a deadline, until all of it is dead.

The one loop of the outside. It blocks, so it runs in a thread; `Cancel` wakes it from another one. It never waits for
the job alone: a job may read its own pipe empty between our look and our read, so the pipes do not block; and one that
hides the writing end of a pipe, or takes long to die, is given up, which is no fault of the sandbox's.
"""

import math
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

CHUNK_BYTES: Final = 1 << 16
DYING_S: Final = 10.0
LOOK_EVERY_S: Final = 0.2
PATIENCE_S: Final = 0.004  # in which no pipe is looked at; a writer that fills one waits as long
_DEATH: Final = "death"
_CANCEL: Final = "cancel"

Stopped = Literal["timed_out", "over_output", "cancelled"]


class Cancel:
    """A request to end a job early, from any thread; `close` when the job is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fd, self._speaker = os.pipe()

    def fileno(self) -> int:
        """The descriptor that becomes readable once somebody asks."""
        return self._fd

    def ask(self) -> None:
        """Ask; it is no error to ask twice, or too late."""
        with self._lock:
            if self._fd >= 0:
                os.write(self._speaker, b"x")

    def close(self) -> None:
        """Let the pipe go; safe to call twice."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                os.close(self._speaker)
                self._fd = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was written, what we stopped the job for, if we did, and whether it and all writers were seen to end."""

    stdout: bytes
    stderr: bytes
    answer: bytes
    stopped: Stopped | None
    is_gone: bool


class _Collection:
    """The state of one collecting: who is still open, what is written, whether the end has begun."""

    def __init__(
        self,
        pipes: Mapping[str, int],
        kill: Callable[[], None],
        wall_s: float,
        cap_bytes: int,
        is_spent: Callable[[], bool],
    ) -> None:
        self._written = {name: bytearray() for name in pipes}
        self._names = {fd: name for name, fd in pipes.items()}
        self._num_pipes = len(pipes)
        self._kill = kill
        self._cap_bytes = cap_bytes
        self._is_spent = is_spent
        self._deadline = time.monotonic() + wall_s
        self._next_look = time.monotonic() + LOOK_EVERY_S
        self._is_dead = False
        self._is_ending = False
        self._is_given_up = False
        self._stopped: Stopped | None = None
        self._poll = select.poll()  # for five descriptors, fewer calls than epoll, and less Python than a selector

    def run(self, death_fd: int, cancel_fd: int) -> Collected:
        ends = {death_fd: _DEATH, cancel_fd: _CANCEL}
        for fd in ends:
            self._poll.register(fd, select.POLLIN)
        if self._num_pipes:  # of a job that is over by then, all that was written is read at one waking
            self._poll.poll(1e3 * min(PATIENCE_S, max(0.0, self._deadline - time.monotonic())))
        for fd in self._names:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        self._names |= ends
        while (self._num_pipes or not self._is_dead) and not self._is_given_up:
            until = min(self._deadline, self._next_look)
            for fd, _ in self._poll.poll(math.ceil(1e3 * max(0.0, until - time.monotonic()))):
                self._take(fd)
            self._check(time.monotonic())
        texts = {name: bytes(text[: self._cap_bytes]) for name, text in self._written.items()}
        return Collected(stopped=self._stopped, is_gone=not self._is_given_up, **texts)

    def _check(self, now: float) -> None:
        """Look at the clocks, also while a job keeps its pipes busy."""
        if now >= self._deadline:
            self._is_given_up = self._is_ending
            self._stop("timed_out")
        elif now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            if not self._is_ending and self._is_spent():
                self._stop("timed_out")

    def _stop(self, reason: Stopped) -> None:
        if not self._is_ending:
            self._stopped = reason
            self._kill()
            self._begin_to_end()

    def _begin_to_end(self) -> None:
        self._is_ending = True
        self._deadline = time.monotonic() + DYING_S

    def _take(self, fd: int) -> None:
        name = self._names.get(fd)
        if name == _DEATH:
            self._drop(fd)
            self._is_dead = True
            self._begin_to_end()
        elif name == _CANCEL:
            self._drop(fd)
            self._stop("cancelled")
        elif name is not None:
            self._read(name, fd)

    def _drop(self, fd: int) -> None:
        self._poll.unregister(fd)
        del self._names[fd]

    def _read(self, name: str, fd: int) -> None:
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._drop(fd)
            self._num_pipes -= 1
        self._written[name] += chunk
        if sum(map(len, self._written.values())) > self._cap_bytes:
            for pipe in [each for each, of in self._names.items() if of in self._written]:
                self._drop(pipe)
            self._num_pipes = 0
            self._stop("over_output")
            self._stopped = self._stopped or "over_output"


def collect(
    pipes: Mapping[str, int],
    death_fd: int,
    cancel: Cancel,
    kill: Callable[[], None],
    wall_s: float,
    cap_bytes: int,
    is_spent: Callable[[], bool] = lambda: False,
) -> Collected:
    """Collect from the pipes stdout, stderr and answer until `death_fd` says that the job is dead.

    Past the deadline, past `cap_bytes` over all three, or once it `is_spent`, which is asked now and then, call `kill`
    and go on to the death, for `DYING_S` at most.
    """
    return _Collection(pipes, kill, wall_s, cap_bytes, is_spent).run(death_fd, cancel.fileno())
