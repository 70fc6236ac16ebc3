"""The box in which the domains' tests run code."""

import asyncio
from collections.abc import Iterator

import pytest

from burnish.sandbox import Box, missing, open_box


@pytest.fixture(scope="session")
def box() -> Iterator[Box]:
    """One box for all tests: isolated where the host can isolate (what a domain promises holds in both)."""
    with asyncio.Runner() as runner:
        context = open_box("none" if missing() else "namespaces")
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))
