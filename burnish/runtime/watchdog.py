"""The watchdog: a run that stands still says so, and names what it waits for.

Whoever may wait says for what (`waiting_for`), and `beat`s at each sign of progress. When none came for `patience_s`, a
second thread tells `waiting 90 s for verdicts: 3 sandboxes busy, oldest task X`, and again each time the wait has
doubled. The words are made at that moment, by the one who waits.

Covered: a main thread that waits, or is deep in one long operation. Not covered: ending a stall; only its owner knows
how (verdicts, servers and workers have limits of their own).
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


@dataclass(slots=True)
class Wait:
    """One wait for one thing: when to speak of it. All times are of one clock, in seconds."""

    what: Callable[[], str]
    since_s: float
    due_s: float

    def told(self, now_s: float) -> None:
        """The next word is due when the wait has doubled."""
        self.due_s = now_s + (now_s - self.since_s)


class Watchdog:
    """Watches one thread; `tell` is called in another."""

    def __init__(
        self,
        tell: Callable[[str], object],
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._patience_s, self._clock = tell, patience_s, clock
        self._waits: list[Wait] = []
        self._changed = threading.Condition()
        self._wakes_at_s = math.inf
        """When the thread looks again by itself."""
        self._is_stopped = False
        self._thread = threading.Thread(target=self._watch, name="burnish-watchdog", daemon=True)

    @contextmanager
    def waiting_for(self, what: Callable[[], str]) -> Iterator[None]:
        """Within the block, a wait is one for `what()`; an inner block's words come before an outer's."""
        with self._changed:
            now_s = self._clock()
            self._waits.append(Wait(what, now_s, now_s + self._patience_s))
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._waits.pop()
                self._begin_anew()

    def each(self, items: Iterator[T], what: Callable[[], str]) -> Iterator[T]:
        """Yield each item; the time until the next is a wait for `what()`, and what is done with one is not."""
        while True:
            with self.waiting_for(what):
                item = next(items, None)
            if item is None:
                return
            yield item

    def beat(self) -> None:
        """Something moved."""
        with self._changed:
            self._begin_anew()

    def look(self) -> str | None:
        """What is to be told now, if anything."""
        with self._changed:
            now_s = self._clock()
            if not self._waits or now_s < self._waits[-1].due_s:
                return None
            wait = self._waits[-1]
            wait.told(now_s)
        return f"waiting {now_s - wait.since_s:.0f} s for {wait.what()}"

    def stop(self) -> None:
        """End the thread; safe to call twice."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _begin_anew(self) -> None:
        """Any progress is progress of all that is waited for."""
        now_s = self._clock()
        for wait in self._waits:
            wait.since_s, wait.due_s = now_s, now_s + self._patience_s
        if self._waits and self._waits[-1].due_s < self._wakes_at_s:  # else it would sleep on to a doubled wait's end
            self._changed.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._is_stopped:
                    return
                left_s = self._waits[-1].due_s - self._clock() if self._waits else None
                if left_s is None or left_s > 0:
                    self._wakes_at_s = self._waits[-1].due_s if self._waits else math.inf
                    self._changed.wait(left_s)
            if (message := self.look()) is not None:
                self._tell(message)
