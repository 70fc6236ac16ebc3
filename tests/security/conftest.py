"""The host that the attacks are aimed at: a canary, a port, and the boxes that hold them."""

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from burnish.sandbox import Box, missing, open_box

CANARY = "swordfish"


class Host(NamedTuple):
    """What an attack must not reach: a file, alone in its folder, and a port."""

    canary: Path
    port: int

    @property
    def given(self) -> bytes:
        """What the attacks are told."""
        return json.dumps({"canary": str(self.canary), "port": self.port}).encode()

    def check_untouched(self) -> None:
        """Nothing was changed, nothing was left."""
        assert self.canary.read_text() == CANARY
        assert os.listdir(self.canary.parent) == [self.canary.name]
        assert self.canary.stat().st_nlink == 1


def make_host(folder: Path, port: int) -> Host:
    canary = folder / "canary"
    canary.write_text(CANARY)
    return Host(canary=canary, port=port)


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """A port of this machine on which somebody listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def host(tmp_path: Path, port: int) -> Host:
    return make_host(tmp_path, port)


def descendants(pid: int) -> set[int]:
    """The processes below one of ours, this many generations deep."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found |= {child} | (descendants(child) if Path(f"/proc/{child}").exists() else set())
    return found


@pytest.fixture(scope="session")
def box() -> Iterator[Box]:
    """The default box; when it stops, nothing that it started is left."""
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    before = descendants(os.getpid())
    with asyncio.Runner() as runner:
        context = open_box("namespaces", num_workers=2)
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))
    for _ in range(50):
        left = descendants(os.getpid()) - before
        if not left:
            break
        time.sleep(0.1)
    assert not left
