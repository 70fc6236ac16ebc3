"""Blocking work in threads, awaited by asyncio, and killed when the wait is cancelled."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from burnish.core.errors import SandboxError
from burnish.sandbox.streams import Cancel
from burnish.sandbox.types import Outcome


async def run_in_thread(threads: ThreadPoolExecutor, work: Callable[[Cancel], Outcome]) -> Outcome:
    """Run blocking work; a cancelled wait asks it to end, waits for that, and then is cancelled."""
    cancel = Cancel()
    try:
        future = threads.submit(work, cancel)
    except RuntimeError as error:
        cancel.close()
        raise SandboxError("sandbox: this box was stopped; open another with open_box()") from error
    future.add_done_callback(lambda _: cancel.close())
    waiting = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        cancel.ask()
        await asyncio.wait([waiting])
        waiting.exception()  # seen: a job that was called off may end in any way
        raise
