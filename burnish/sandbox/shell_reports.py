"""Reports of a shell's bash: a socket that anything in the place may write to, and of which bash alone counts.

The kernel says with each message which process sent it. A report counts if that is bash and if it begins with the word
that is expected, of which only the first does: one that comes late for an earlier command ends no other. Descriptors
that come along are closed.
"""

import asyncio
import os
import re
import socket
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from burnish.sandbox.inside.keeper import MAX_FDS

CHUNK_BYTES: Final = 1 << 16
CODE: Final = re.compile(rb"\d{1,3}")


class Report(NamedTuple):
    """How a command ended, and in which folder bash is then."""

    code: int
    cwd: str


class Reports:
    """What bash reports of the one command that is expected to end."""

    def __init__(self, link: socket.socket, pid: int, on_news: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._link, self._pid, self._on_news = link, pid, on_news
        self._word = b""
        self._parts = b""
        self._report: Report | None = None
        self._has_ended = False
        link.setblocking(False)
        self._loop.add_reader(link.fileno(), self._read)

    def expect(self, word: bytes) -> None:
        """From now on, only a report with this word counts."""
        self._word, self._report = word, None

    def has_any(self) -> bool:
        """Whether the command has ended, or bash reports nothing more."""
        return self._report is not None or self._has_ended

    def take(self) -> Report | None:
        """The report, once `has_any`; None: there will be none."""
        return self._report

    def close(self) -> None:
        """Hear no more."""
        self._loop.remove_reader(self._link.fileno())
        self._link.close()

    def _read(self) -> None:
        room = socket.CMSG_SPACE(12) + socket.CMSG_SPACE(4 * MAX_FDS)
        try:
            text, ancillary, _, _ = self._link.recvmsg(CHUNK_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            text, ancillary = b"", []
        if not text:
            self._loop.remove_reader(self._link.fileno())
            self._has_ended = True
            self._on_news()
            return
        sender = 0
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                sender = struct.unpack("3i", data[:12])[0]
            elif level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                for (fd,) in struct.iter_unpack("i", data[: len(data) // 4 * 4]):
                    os.close(fd)
        if sender == self._pid:
            self._keep(text)

    def _keep(self, text: bytes) -> None:
        *parts, self._parts = (self._parts + text).split(b"\0")
        self._parts = self._parts[-CHUNK_BYTES:]
        for index, part in enumerate(parts):
            is_report = part == self._word and len(parts) > index + 2 and CODE.fullmatch(parts[index + 1])
            if self._word and is_report and self._report is None:
                self._report = Report(int(parts[index + 1]), parts[index + 2].decode(errors="surrogateescape"))
                self._on_news()
