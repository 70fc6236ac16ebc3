"""One isolated box for all tests of the sandbox, driven from a loop in a thread of its own."""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from burnish.sandbox import Box, Job, Outcome, ResourceLimits, missing, open_box

Run = Callable[..., Outcome]
SMALL = {"wall_s": 20.0, "cpu_s": 10.0, "memory_mb": 128, "disk_mb": 2, "num_files": 64, "num_processes": 8}


@pytest.fixture
def open_to_all(tmp_path: Path) -> Path:
    """The temporary folder, which other users can reach and read."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    return tmp_path


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="session")
def box(loop: asyncio.AbstractEventLoop) -> Iterator[Box]:
    lacks = missing()
    if lacks:
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    stack = AsyncExitStack()
    yield asyncio.run_coroutine_threadsafe(stack.enter_async_context(open_box(num_workers=2)), loop).result()
    asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result()


@pytest.fixture
def run_job(box: Box, loop: asyncio.AbstractEventLoop) -> Run:
    def run_one(source: str, limits: dict[str, float] | None = None, **rest: Any) -> Outcome:
        job = Job(source=source, limits=ResourceLimits(**(SMALL | (limits or {}))), **rest)
        return asyncio.run_coroutine_threadsafe(box.run(job), loop).result()

    return run_one


@pytest.fixture
def run(run_job: Run) -> Run:
    def run_limited(source: str, files: dict[str, bytes] | None = None, stdin: bytes = b"", **limits: float) -> Outcome:
        return run_job(source, limits, files=files or {}, stdin=stdin)

    return run_limited
