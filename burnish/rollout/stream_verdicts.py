"""Verdicts that are asked for and come when they come."""

import queue
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from burnish.core.types import Verdict
from burnish.rollout.judge import Judge
from burnish.rollout.mixture import Draw
from burnish.rollout.stream_log import Key
from burnish.runtime.local import Background


class Arrived(NamedTuple):
    """A verdict that has come."""

    key: Key
    verdict: Verdict
    verify_s: float


class Verdicts(Protocol):
    """Where a loop asks for verdicts."""

    @property
    def num_asked(self) -> int:
        """How many were asked for and are neither taken nor dropped."""
        ...

    def ask(self, key: Key, draw: Draw, reply: str) -> None:
        """Have a reply judged."""
        ...

    def drop(self, key: Key) -> None:
        """Stop waiting for a verdict; no effect if none is waited for."""
        ...

    def take(self, wait_s: float = 0.0) -> list[Arrived]:
        """What has come since the last call, in order; waits so long for a first one."""
        ...


class _Asked(NamedTuple):
    future: Future[Verdict]
    since_s: float


class _Come(NamedTuple):
    key: Key
    at_s: float
    """When it was there; it may be taken much later, after an update."""


@dataclass(slots=True)
class BackgroundVerdicts:
    """Verdicts that a judge finds in the background thread, while this one computes."""

    judge: Judge
    background: Background
    _asked: dict[Key, _Asked] = field(default_factory=dict[Key, _Asked])
    _done: "queue.SimpleQueue[_Come]" = field(default_factory=queue.SimpleQueue)

    @property
    def num_asked(self) -> int:
        """See `Verdicts`."""
        return len(self._asked)

    def ask(self, key: Key, draw: Draw, reply: str) -> None:
        """See `Verdicts`."""
        future = self.background.submit(self.judge(draw.source.domain, draw.task, reply))
        self._asked[key] = _Asked(future, time.monotonic())
        future.add_done_callback(lambda _: self._done.put(_Come(key, time.monotonic())))

    def drop(self, key: Key) -> None:
        """See `Verdicts`."""
        if (asked := self._asked.pop(key, None)) is not None:
            asked.future.cancel()

    def take(self, wait_s: float = 0.0) -> list[Arrived]:
        """See `Verdicts`."""
        arrived: list[Arrived] = []
        while True:
            try:
                key, at_s = self._done.get(timeout=wait_s) if wait_s and not arrived else self._done.get_nowait()
            except queue.Empty:
                return arrived
            if (asked := self._asked.pop(key, None)) is not None:  # else it was dropped just before it came
                arrived.append(Arrived(key, asked.future.result(), at_s - asked.since_s))

    def stop(self) -> None:
        """Give up all that was asked for; safe to call twice."""
        for key in list(self._asked):
            self.drop(key)
