"""This host: the main thread computes, a second thread runs an asyncio loop for all that waits, workers are processes.

So replies are verified while the next tokens are being sampled. Covered: coroutines from the main
thread, orderly stop, worker processes without any server. Not covered: work on other machines.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from burnish.runtime.processes import ProcessWorker
from burnish.runtime.types import CPU, Needs
from burnish.runtime.workers import Opening, Worker

S = TypeVar("S")
T = TypeVar("T")


class Background:
    """An asyncio loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="burnish-background", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine; its result is waited for elsewhere."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.submit(work).result()

    def stop(self) -> None:
        """Cancel what still runs and end the thread; safe to call twice."""
        if self._loop.is_closed():
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Local:
    """The runtime of one host; see `burnish.runtime.types.Runtime`."""

    host = "127.0.0.1"

    def crew(
        self, name: str, opening: Callable[[int], Opening[S]], num_workers: int, needs: Needs = CPU, *,
        is_packed: bool = False,
    ) -> Callable[[int], Worker[S]]:  # fmt: skip
        """See `Runtime`; the host is not divided, whatever workers need."""
        return partial(_started, name, opening)

    def close(self) -> None:
        """See `Runtime`; there is nothing beside the workers."""


def _started(name: str, opening: Callable[[int], Opening[S]], number: int) -> Worker[S]:
    return ProcessWorker(f"{name}-{number}", opening(number))


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
