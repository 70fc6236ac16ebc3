"""The inners that a backend has open, so that each backend says only how one is made and started.

Decisions: an inner that does not start is stopped before its error is passed on; an inner tells this when it is gone.
Not covered: whether a backend that was stopped opens more: those that have threads of their own refuse it.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from burnish.sandbox.backends.stewarded import Inner, OpenInner, run_job
from burnish.sandbox.types import Job, Outcome, check_file_names

Started = TypeVar("Started", bound=Inner)


class Inners:
    """Those that live, and how many jobs may have one at once."""

    def __init__(self, num_jobs: int) -> None:
        self._live: set[Inner] = set()
        self._slots = asyncio.Semaphore(num_jobs)

    async def run(self, job: Job, open_inner: OpenInner) -> Outcome:
        """Run one job in an inner of its own."""
        check_file_names(job)
        async with self._slots:
            return await run_job(await open_inner(), job)

    async def started(self, inner: Started, start: Awaitable[None]) -> Started:
        """Wait for the start of an inner, which counts from now on."""
        self._live.add(inner)
        try:
            await start
        except BaseException:
            await inner.stop()
            raise
        return inner

    def discard(self, inner: Inner) -> None:
        """Forget one that is gone; safe to call twice."""
        self._live.discard(inner)

    async def stop(self) -> None:
        """Stop every one."""
        for inner in list(self._live):
            await inner.stop()
