"""A shell session: bash on a terminal of its own, which outlives what is run in it.

Commands reach bash over a private socket, not through the terminal, so nothing echoes. Each is followed by a
line that reports the exit code and the folder on a second socket with a random word. That a report is true is
known from three things: the word, which bash reads only after the command has ended; the sender, since the
kernel says which process wrote to the socket, and only bash itself counts; and the socket, which is closed in
what the command starts. The same word, written to the terminal, marks where the command's output ends.
So neither text nor a write to any descriptor that a program has can forge a report. What is left to a command
that is written in bash itself is to lie about its own exit code, which `exit 0` does as well, and about those of
later commands in the same session (a function named `printf`, an alias). A program can do the same by writing
into bash's memory, since both are one user. So a verdict runs its commands by `Place.run`, never in a shell that
an agent had.

Past its time, or its output, a command gets Ctrl-C, then its process group is killed, again and again for some
seconds; if it is bash itself that does not come back, a new bash is started in the old folder.

Covered: what is typed, job control, terminal size, paging. Not covered: full-screen programs (they run, and
their escape codes are what comes out).
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from burnish.core.errors import SandboxError
from burnish.sandbox.keeper_link import KeeperLink
from burnish.sandbox.place import Reply, ReplyEnding
from burnish.sandbox.shell_reports import CHUNK_BYTES, Reports
from burnish.sandbox.shell_text import ARGV, MARK, SETUP, shown, wrapped

PATIENCE_S: Final = 0.5
"""Between two attempts to end a command."""
NUM_ATTEMPTS: Final = 10
DRAIN_S: Final = 0.5
STARTING_S: Final = 10.0
ENDING_S: Final = 5.0
"""From the end of bash's reports to its own."""


class LocalShell:
    """One session; made by `LocalPlace.open_shell`."""

    def __init__(
        self,
        *,
        link: KeeperLink,
        name: str,
        env: dict[str, str],
        cpu_s: float,
        cap_bytes: int,
        size: tuple[int, int],
        strips_ansi: bool,
        on_close: Callable[["LocalShell"], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._order = {
            "name": name,
            "argv": ARGV,
            "env": env | {"PS1": "", "PS2": ""},
            "cpu_s": cpu_s,
            "rows": size[0],
            "columns": size[1],
        }
        self._cap_bytes = cap_bytes
        self._strips_ansi = strips_ansi
        self._on_close = on_close
        self._cwd = "/work"
        self._word = b""
        self._output = bytearray()
        self._num_shown = 0
        self._last_code = 0
        self._is_to_enter_again = False
        self._was_interrupted = False
        self._is_open = False
        self._has_ended = False
        self.number = 0

    @property
    def is_idle(self) -> bool:
        """Whether no command runs."""
        return not self._word

    async def start(self, cwd: str) -> None:
        """Start bash; called once by whoever made this object, and again when it must be replaced."""
        orders, far_orders = socket.socketpair()
        reports, far_reports = socket.socketpair()
        reports.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            with far_orders, far_reports:
                fds = [far_orders.fileno(), far_reports.fileno()]
                self.number = self._link.begin("shell", fds, cwd=cwd, **self._order)
            answer = await self._link.prompt_answer(self.number, "shell", is_last=False)
        except BaseException:
            self._link.forget(self.number)
            orders.close()
            reports.close()
            raise
        self._orders = orders
        self._terminal, pidfd = answer.fds
        self._has_news = asyncio.Event()
        self._reports = Reports(reports, _pid_of(pidfd), lambda: self._word, self._has_news.set)
        os.close(pidfd)
        self._is_open = True
        self._last_code = 0
        os.set_blocking(self._terminal, False)
        self._loop.add_reader(self._terminal, self._read_terminal)
        try:
            await self._loop.sock_sendall(_non_blocking(orders), SETUP.encode())
            await self._meet(STARTING_S)  # before that, a Ctrl-C would end bash itself
        except BaseException:
            self._let_go()
            self._link.forget(self.number)
            raise
        self._word = b""

    def enter_again(self) -> None:
        """Have the next command start by entering its folder anew, which a snapshot has put elsewhere."""
        self._is_to_enter_again = True

    async def send(self, command: str, timeout_s: float = 60.0, *, keeps_running: bool = False) -> Reply:
        """Run a command to its end; past its time it is interrupted, then killed, or left to run."""
        self._check_open()
        if self._word:
            raise SandboxError("sandbox: a command runs in this shell; wait for it with type(''), or interrupt() it")
        if "\0" in command:
            raise SandboxError("sandbox: bad command for a shell: it has a NUL in it")
        self._word = secrets.token_hex(16).encode()
        self._output.clear()
        self._num_shown = 0
        self._was_interrupted = False
        return await self._finish(timeout_s, keeps_running, self._wrapped(command))

    async def type(self, text: str, timeout_s: float = 60.0, *, keeps_running: bool = False) -> Reply:
        """Type into the command that runs, and wait on for its end; `Reply.output` is what came since."""
        self._check_open()
        if not self._word:
            raise SandboxError("sandbox: no command runs in this shell that could be typed to; send() one first")
        self._num_shown = len(self._output)
        await self._put(text.encode())
        return await self._finish(timeout_s, keeps_running)

    async def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._check_open()
        self._was_interrupted = bool(self._word)
        await self._put(b"\x03")

    def page(self, start: int, num_bytes: int) -> bytes:
        """Read from what is kept of the last command's output, byte for byte: at most `output_bytes` of it."""
        return bytes(self._output[max(0, start) : max(0, start) + num_bytes])

    async def close(self) -> None:
        """End the shell and what has its terminal; safe to call twice."""
        number = self.number
        if self._is_open:
            self._let_go()
            if not self._has_ended:
                with suppress(SandboxError):
                    await self._link.ask("kill", task=number)
                    await self._link.answer(number)
        self._link.forget(number)
        self._on_close(self)

    def _check_open(self) -> None:
        if not self._is_open:
            raise SandboxError("sandbox: this shell has ended; open another with open_shell()")

    def _let_go(self) -> None:
        self._is_open = False
        self._loop.remove_reader(self._terminal)
        os.close(self._terminal)
        self._orders.close()
        self._reports.close()

    def _wrapped(self, command: str) -> bytes:
        enters_again, self._is_to_enter_again = self._is_to_enter_again, False
        return wrapped(command, self._word, self._last_code, enters_again=enters_again)

    async def _put(self, keys: bytes) -> None:
        """Press keys; a program that reads none of them may let them be lost."""
        deadline = self._loop.time() + PATIENCE_S
        while keys and self._loop.time() < deadline:
            try:
                keys = keys[os.write(self._terminal, keys) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)

    def _read_terminal(self) -> None:
        try:
            chunk = os.read(self._terminal, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:  # nobody has the terminal any more
            self._loop.remove_reader(self._terminal)
            self._has_news.set()
            return
        self._output += chunk
        del self._output[self._cap_bytes + 2 * CHUNK_BYTES :]
        self._has_news.set()

    async def _give(self, text: bytes, timeout_s: float) -> bool:
        """Hand bash what it is to do; whether it took it. One that something has stopped reads nothing."""
        with suppress(ConnectionError):  # a shell that was killed meanwhile is met by whoever waits for its report
            try:
                await asyncio.wait_for(self._loop.sock_sendall(self._orders, text), timeout_s)
            except TimeoutError:
                return False
        return True

    async def _finish(self, timeout_s: float, keeps_running: bool, text: bytes = b"") -> Reply:
        try:
            is_given = not text or await self._give(text, timeout_s)
            stopped = await self._wait(timeout_s if is_given else 0.0)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._abandon()))
            raise
        if stopped == "timed_out" and keeps_running and is_given:
            return self._reply("running", None)
        has_new_shell = stopped is not None and not await self._force()
        report = None if has_new_shell else self._reports.take()
        if has_new_shell:
            self._word = b""
            return self._reply(stopped or "shell_ended", None, has_new_shell=True)
        if report is None:
            return await self._end()
        await self._drain()
        self._last_code, self._cwd = report
        if stopped is not None:
            await self._settle()
        self._word = b""
        is_interrupted = self._was_interrupted and self._last_code == 130
        return self._reply(stopped or ("interrupted" if is_interrupted else "exited"), self._last_code)

    async def _abandon(self) -> None:
        """End a command that nobody waits for, up to its mark, so that nothing of it comes into the next one."""
        if not await self._force():
            self._word = b""
            return
        report = self._reports.take()
        if report is None:
            await self._end()
            return
        await self._drain()
        self._last_code, self._cwd = report
        await self._settle()
        self._word = b""

    async def _settle(self) -> None:
        """Have bash answer once: a Ctrl-C that came late would otherwise end the next command before it is read."""
        for _ in range(NUM_ATTEMPTS):
            if await self._meet(PATIENCE_S):
                break

    async def _meet(self, patience_s: float) -> bool:
        """Have bash do nothing and report it; whether it did, or has ended, which the next command is told."""
        kept = bytes(self._output)
        self._output.clear()
        self._word = secrets.token_hex(16).encode()
        has_met = await self._give(self._wrapped(":"), patience_s) and await self._wait(patience_s) is None
        if has_met:
            report = self._reports.take()
            if report is None:
                self._reports.note_end()
            else:
                await self._drain()
        self._output[:] = kept
        return has_met

    async def _end(self) -> Reply:
        """Bash itself has ended, with the code that it was told to end with; or it closed its reports, and must end."""
        self._word = b""
        ended = asyncio.ensure_future(self._link.answer(self.number))
        try:
            if not (await asyncio.wait({ended}, timeout=ENDING_S))[0]:
                await self._link.ask("kill", task=self.number)
            code = (await ended).said["code"]
        finally:
            ended.cancel()
        self._has_ended = True
        self._read_terminal()
        await self.close()
        return self._reply("shell_ended", code if code >= 0 else None)

    async def _wait(self, timeout_s: float) -> ReplyEnding | None:
        """Wait for the end; what to stop the command for otherwise."""
        deadline = self._loop.time() + timeout_s
        while not self._reports.has_any():
            if len(self._output) > self._cap_bytes:
                return "over_output"
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                return "timed_out"
            self._has_news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), left_s)
        return None

    async def _force(self) -> bool:
        """End the command that runs; whether the shell is still the same."""
        for attempt in range(NUM_ATTEMPTS):
            if attempt:
                await self._link.ask("kill_foreground", task=self.number)
            if not self._reports.has_any():
                await self._put(b"\x03")
            self._has_news.clear()
            deadline = self._loop.time() + PATIENCE_S
            while not self._reports.has_any() and self._loop.time() < deadline:
                self._has_news.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._has_news.wait(), deadline - self._loop.time())
            if self._reports.has_any():
                return True
        number = self.number
        self._let_go()
        await self._link.ask("kill", task=number)
        await self._link.answer(number)
        await self.start(self._cwd)
        return False

    async def _drain(self) -> None:
        """Wait until all that came before the mark on the terminal is here, and cut the mark out."""
        mark = MARK % self._word
        deadline = self._loop.time() + DRAIN_S
        while (at := self._output.find(mark)) < 0 and self._loop.time() < deadline:
            self._has_news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), max(0.0, deadline - self._loop.time()))
        if at >= 0:
            del self._output[at : at + len(mark)]
        del self._output[self._cap_bytes :]

    def _reply(self, ending: ReplyEnding, exit_code: int | None, has_new_shell: bool = False) -> Reply:
        since = bytes(self._output[self._num_shown :])
        text, was_truncated = shown(since, strips_ansi=self._strips_ansi)
        return Reply(
            output=text.decode(errors="replace"),
            exit_code=exit_code,
            cwd=self._cwd.encode(errors="surrogateescape").decode(errors="replace"),
            ending=ending,
            was_truncated=was_truncated,
            has_new_shell=has_new_shell,
        )


def _non_blocking(link: socket.socket) -> socket.socket:
    link.setblocking(False)
    return link


def _pid_of(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
