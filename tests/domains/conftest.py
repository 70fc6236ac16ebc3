"""The boxes in which the domains' tests run code: with isolation where the host can isolate, and without."""

import asyncio
from collections.abc import Iterator

import pytest

from burnish.sandbox import Box, missing, open_box


@pytest.fixture(scope="session", params=["namespaces", "none"])
def box(request) -> Iterator[Box]:
    """One open box for all tests; a host that cannot isolate skips that half and says what it lacks."""
    if request.param == "namespaces" and (lacks := missing()):
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    with asyncio.Runner() as runner:
        context = open_box(request.param)
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))
