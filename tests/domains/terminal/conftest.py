"""The backend in which terminal episodes of tests run, in an event loop of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from burnish.domains.terminal.spec import TerminalTask
from burnish.sandbox import Backend, missing, open_box
from tests.domains.terminal.leaks import store_of_one


class Outdoors(NamedTuple):
    """A backend, and what runs a coroutine where it lives."""

    backend: Backend
    run: Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="session")
def outdoors() -> Iterator[Outdoors]:
    """One backend for all tests that need places."""
    lacks = missing()
    if lacks:
        pytest.skip(f"this host cannot isolate: {lacks[0]}")
    with asyncio.Runner() as runner:
        context = open_box("namespaces")
        backend = runner.run(context.__aenter__())
        yield Outdoors(backend, runner.run)
        runner.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[TerminalTask, Path]:
    """A task of a package, and the folder of its base."""
    store = store_of_one(tmp_path_factory.mktemp("tasks") / "store")
    task = store.task("train", 0)
    return task, store.base_folder(task.base)
