"""Each backend that works here, opened once, driven from the sandbox tests' loop."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import pytest

from burnish.sandbox import Job, Outcome, ResourceLimits, backends
from burnish.sandbox.place import ISOLATED, Backend, Place, PlaceSpec

T = TypeVar("T")
Wait = Callable[[Coroutine[Any, Any, T]], T]
LIMITS = {"wall_s": 60.0, "cpu_s": 20.0, "memory_mb": 128, "disk_mb": 2, "num_files": 64, "num_processes": 8}


@pytest.fixture(scope="session")
def wait(loop: asyncio.AbstractEventLoop) -> Wait[Any]:
    return lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()


@pytest.fixture(scope="session")
def opened(wait: Wait[Any]) -> Iterator[Callable[[str], Backend]]:
    """Open a backend by name, at first use; skip where the host lacks something for it."""
    stack, found = AsyncExitStack(), {}

    def open_named(name: str) -> Backend:
        if name not in found:
            lacks = backends.missing(name)
            if lacks:
                pytest.skip(f"{name} is not available here: {'; '.join(lacks)}")
            found[name] = wait(stack.enter_async_context(backends.open_backend(name)))
        return found[name]

    yield open_named
    wait(stack.aclose())


@pytest.fixture(params=backends.names())
def backend(request: pytest.FixtureRequest, opened: Callable[[str], Backend]) -> Backend:
    return opened(request.param)


@pytest.fixture
def isolated(backend: Backend) -> Backend:
    if not backend.guarantees >= ISOLATED:
        pytest.skip(f"{backend.isolation} does not say that it isolates")
    return backend


def limits(**changed: float) -> ResourceLimits:
    return ResourceLimits(**(LIMITS | changed))


def job(source: str, files: dict[str, bytes] | None = None, stdin: bytes = b"", **changed: float) -> Job:
    return Job(source=source, files=files or {}, stdin=stdin, limits=limits(**changed))


@pytest.fixture
def run(backend: Backend, wait: Wait[Outcome]) -> Callable[..., Outcome]:
    return lambda source, **rest: wait(backend.run(job(source, **rest)))


@pytest.fixture
def place(backend: Backend, wait: Wait[Any]) -> Iterator[Place]:
    """A place that needs what its backend gives, and no more."""
    started = wait(backend.start(PlaceSpec(needs=backend.guarantees, limits=limits())))
    yield started
    wait(started.stop())
