"""What the tests of places share: a loop in a thread of its own, by which a test has a coroutine done."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from burnish.sandbox import missing

Do = Callable[[Any], Any]


@pytest.fixture(scope="module")
def do() -> Iterator[Do]:
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
