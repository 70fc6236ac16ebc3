"""Gather what a command writes to its pipes, on the event loop, up to a cap.

Unlike `streams.collect` it does not wait for the pipes to close: what a command left running in a place may hold
them for as long as it lives. `finish` takes what is there at the command's end.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

CHUNK_BYTES: Final = 1 << 16


class Gathering:
    """Pipes with their far ends, for `begin` to close once they are handed over."""

    def __init__(self, names: Sequence[str], cap_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._cap_bytes = cap_bytes
        pipes = [os.pipe() for _ in names]
        self.far_ends = [far for _, far in pipes]
        self._near = {near: name for (near, _), name in zip(pipes, names, strict=True)}
        self._written = {name: bytearray() for name in names}
        self.is_over: asyncio.Future[None] = self._loop.create_future()

    def begin(self) -> None:
        """Let go of the far ends and read."""
        while self.far_ends:
            os.close(self.far_ends.pop())
        for fd in self._near:
            os.set_blocking(fd, False)
            self._loop.add_reader(fd, self._read, fd)

    def _read(self, fd: int) -> bool:
        """Take one chunk; whether there may be more."""
        with suppress(BlockingIOError):
            chunk = os.read(fd, CHUNK_BYTES)
            self._written[self._near[fd]] += chunk
            is_too_much = sum(map(len, self._written.values())) > self._cap_bytes
            if is_too_much and not self.is_over.done():
                self.is_over.set_result(None)
            if chunk and not is_too_much:
                return True
            self._loop.remove_reader(fd)
            del self._near[fd]
            os.close(fd)
        return False

    def finish(self) -> dict[str, bytes]:
        """Take what is in the pipes, and give all of it, each stream cut at the cap."""
        for fd in list(self._near):
            while self._read(fd):
                pass
        return {name: bytes(text[: self._cap_bytes]) for name, text in self._written.items()}

    def close(self) -> None:
        """Let the pipes go."""
        for fd in list(self._near):
            self._loop.remove_reader(fd)
            os.close(fd)
        self._near.clear()
        while self.far_ends:
            os.close(self.far_ends.pop())
