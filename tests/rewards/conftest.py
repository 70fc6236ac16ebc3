"""The box in which the verifiers' tests run code, and the loop that it lives in."""

import asyncio
from collections.abc import Iterator

import pytest

from burnish.sandbox import Box, missing, open_box


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def box(runner: asyncio.Runner) -> Iterator[Box]:
    """A box for a file's tests: isolated where the host can isolate (what a verifier promises holds in both)."""
    context = open_box("none" if missing() else "namespaces")
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))
