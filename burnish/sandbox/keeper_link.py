"""A keeper, seen from outside: start its process, give it orders, hear answers, end it.

One SOCK_SEQPACKET socket, JSON with descriptors beside it; answers come by id, in any order, on the event loop
that started it. A keeper that goes away fails everything that still waits. It dies when the socket closes, so
nothing outlives this process.
"""

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from burnish.core.errors import SandboxError
from burnish.sandbox import bare, host
from burnish.sandbox.inside.ground import Plan
from burnish.sandbox.inside.keeper import IN_ORDER, MAX_FDS, READY
from burnish.sandbox.memfds import sealed

START_S: Final = 60.0
ANSWER_S: Final = 120.0
"""A keeper copies what a room wrote, on a machine that may be busy; one that dies is heard at once."""
HANG_UP_S: Final = 2.0
MAX_INLINE_BYTES: Final = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the keeper said, and the descriptors that came along, which now are the caller's to close."""

    said: dict[str, Any]
    fds: list[int]


class KeeperLink:
    """A running keeper; it belongs to the event loop that it was made on."""

    def __init__(self, plan: Plan, control: socket.socket, far: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._control = control
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Queue[Answer | None]] = {}
        self._errors_fd = os.memfd_create("keeper-stderr")
        self._is_gone = False
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", bare.start("ground"), json.dumps(asdict(plan))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors_fd,
            pass_fds=[far.fileno()],
            env={},
            cwd="/",
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process that holds the keeper's namespaces open."""
        return self._process.pid

    async def wait_until_ready(self) -> None:
        """Wait for its first word; `SandboxError` with its last one if it fails."""
        self._control.setblocking(False)
        try:
            word = await asyncio.wait_for(self._loop.sock_recv(self._control, 64), START_S)
        except (TimeoutError, ConnectionError):
            word = b""
        if word != READY:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(HANG_UP_S)
            raise SandboxError(
                f"sandbox: the keeper of a place did not start: {self.last_words()}; "
                f"if the system forbids it: {host.how_to_get_it()}"
            )
        self._loop.add_reader(self._control.fileno(), self._hear)

    def begin(self, do: str, fds: Sequence[int] = (), **order: object) -> int:
        """Give an order; the number under which its answers come. The descriptors stay the caller's."""
        if self._is_gone:
            raise SandboxError("sandbox: this place has ended")
        number = next(self._numbers)
        self._waiting[number] = asyncio.Queue()
        text = json.dumps({"id": number, "do": do, **order}).encode()
        try:
            if len(text) <= MAX_INLINE_BYTES:
                socket.send_fds(self._control, [text], list(fds))
            else:
                self._send_long(text, fds)
        except OSError as error:
            del self._waiting[number]
            raise SandboxError(f"sandbox: the keeper of a place takes no order: {error}") from error
        return number

    def _send_long(self, text: bytes, fds: Sequence[int]) -> None:
        fd = sealed(text, "order")
        try:
            socket.send_fds(self._control, [IN_ORDER.encode()], [fd, *fds])
        finally:
            os.close(fd)

    async def answer(self, number: int, is_last: bool = True) -> Answer:
        """Wait for the next answer to an order; `SandboxError` if the keeper says that it failed, or goes away."""
        if number not in self._waiting:
            raise SandboxError(f"sandbox: order {number} of a place was answered already, or given up")
        queue = self._waiting[number]
        try:
            answer = await queue.get()
        finally:
            if is_last:
                self.forget(number)
        if answer is None:
            queue.put_nowait(None)  # for whoever else waits
            if not self._is_gone:
                raise SandboxError(f"sandbox: order {number} of a place was given up, or another saw its answer")
            raise SandboxError(f"sandbox: the keeper of a place has gone: {self.last_words()}")
        if "error" in answer.said:
            raise SandboxError(f"sandbox: {answer.said['error']}")
        return answer

    def forget(self, number: int) -> None:
        """Let go of an order and of descriptors that came for it unread."""
        queue = self._waiting.pop(number, None)
        while queue is not None and not queue.empty():
            for fd in getattr(queue.get_nowait(), "fds", []):
                os.close(fd)
        if queue is not None:
            queue.put_nowait(None)

    async def ask(self, do: str, fds: Sequence[int] = (), **order: object) -> Answer:
        """Give an order and wait for its one answer; a keeper that stays silent is ended."""
        return await self.prompt_answer(self.begin(do, fds, **order), do)

    async def prompt_answer(self, number: int, do: str, is_last: bool = True) -> Answer:
        """Wait for an answer that comes at once; a keeper that stays silent is ended."""
        try:
            return await asyncio.wait_for(self.answer(number, is_last), ANSWER_S)
        except TimeoutError as error:
            self.hang_up()
            await asyncio.to_thread(self.end)
            raise SandboxError(f"sandbox: the keeper did not answer {do!r} within {ANSWER_S:.0f} s") from error

    def _hear(self) -> None:
        while True:
            try:
                message, fds, _, _ = socket.recv_fds(self._control, 1 << 16, MAX_FDS)
            except BlockingIOError:
                return
            except OSError:
                message, fds = b"", []
            if not message:
                self._lose()
                return
            said = json.loads(message)
            queue = self._waiting.get(said.pop("id"))
            if queue is not None:
                queue.put_nowait(Answer(said=said, fds=fds))
            else:
                for fd in fds:
                    os.close(fd)

    def _lose(self) -> None:
        if not self._is_gone:
            self._is_gone = True
            self._loop.remove_reader(self._control.fileno())
            for queue in self._waiting.values():
                queue.put_nowait(None)

    def hang_up(self) -> None:
        """Tell the keeper to go, which kills all that it keeps; on the event loop."""
        self._lose()
        self._control.close()

    def end(self) -> None:
        """Wait until it has gone, and kill it if it does not go by itself; blocks. After `hang_up`; twice is safe."""
        if self._errors_fd < 0:
            return
        try:
            self._process.wait(HANG_UP_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._errors_fd)
        self._errors_fd = -1

    def last_words(self) -> str:
        """The last line that the keeper wrote before it failed."""
        if self._errors_fd < 0:
            return "it was ended"
        size = os.fstat(self._errors_fd).st_size
        lines = os.pread(self._errors_fd, 1 << 14, max(0, size - (1 << 14))).decode(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


async def start_keeper(plan_for: Callable[[int], Plan]) -> KeeperLink:
    """Start a keeper and wait until it is ready."""
    control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        try:
            link = KeeperLink(plan_for(far.fileno()), control, far)
        except BaseException:
            control.close()
            raise
    try:
        await link.wait_until_ready()
    except BaseException:
        link.hang_up()
        await asyncio.to_thread(link.end)
        raise
    return link
