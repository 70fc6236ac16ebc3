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

Past its time, or its output, a command gets SIGINT, then its process group is killed, again and again for some
seconds; if it is bash itself that does not come back, a new bash is started in the old folder, or in `/work` if that
has gone. A signal that meets bash between two commands makes it drop the line that it reads. So it is asked for its
report again, and after a signal or a key the next command waits until bash has answered once more, which it does only
after all that was sent before. Bash 5.2 itself loses its reports if a signal meets it as it opens them again after a
command, a window of microseconds; then too another takes over, and the reply says so (`has_new_shell`).

Covered: what is typed, job control, terminal size, paging. Not covered: full-screen programs (they run, and
their escape codes are what comes out).
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

from burnish.core.errors import SandboxError
from burnish.sandbox.keeper_link import KeeperLink
from burnish.sandbox.place import Reply, ReplyEnding
from burnish.sandbox.shell_orders import Orders
from burnish.sandbox.shell_reports import Reports
from burnish.sandbox.shell_terminal import Terminal
from burnish.sandbox.shell_text import ARGV, MARK, SETUP, report, shown, wrapped
from burnish.sandbox.types import check_limits

PATIENCE_S: Final = 0.5
NUM_ATTEMPTS: Final = 10
NUM_MEETINGS: Final = 5
LONGEST_ERROR: Final = 300
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
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`patience_s` lies between two attempts to end a command."""
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
        self._patience_s = patience_s
        self._cwd = "/work"
        self._word = b""
        self._num_shown = 0
        self._last_code = 0
        self._is_to_enter_again = False
        self._was_interrupted = False
        self._has_keys = False
        self._is_open = False
        self._has_ended = False
        self._was_closed = False
        self.number = 0

    @property
    def is_running(self) -> bool:
        """Whether a command runs."""
        return bool(self._word)

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
        self._orders = Orders(orders)
        self._has_news = asyncio.Event()
        fd, pidfd = answer.fds
        self._terminal = Terminal(fd, self._cap_bytes, self._has_news.set)
        self._reports = Reports(reports, _pid_of(pidfd), self._has_news.set)
        os.close(pidfd)
        self._is_open = True
        self._last_code = 0
        try:
            await self._orders.give(SETUP.encode(), STARTING_S)
            has_met = await self._meet(STARTING_S)  # before that, a signal would end bash itself
            if not has_met or self._reports.take() is None:
                self._terminal.take_until(MARK % self._word)
                said = bytes(self._terminal.output[:LONGEST_ERROR]).decode(errors="replace").strip()
                raise SandboxError(f"sandbox: a shell in {cwd!r} did not start: {said or 'it said nothing'}")
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
        check_limits({"wall_s": timeout_s})
        if self._word:
            raise SandboxError("sandbox: a command runs in this shell; wait for it with type(''), or interrupt() it")
        if b"\0" in _encoded(command):
            raise SandboxError("sandbox: bad command for a shell: it has a NUL in it")
        self._expect()
        self._terminal.output.clear()
        self._num_shown = 0
        self._was_interrupted = self._has_keys = False
        return await self._finish(timeout_s, keeps_running, self._wrapped(command))

    async def type(self, text: str, timeout_s: float = 60.0, *, keeps_running: bool = False) -> Reply:
        """Type into the command that runs, and wait on for its end; `Reply.output` is what came since."""
        self._check_open()
        check_limits({"wall_s": timeout_s})
        if not self._word:
            raise SandboxError("sandbox: no command runs in this shell that could be typed to; send() one first")
        keys = _encoded(text)
        self._num_shown = len(self._terminal.output)
        await self._press(keys)
        return await self._finish(timeout_s, keeps_running)

    async def interrupt(self) -> None:
        """Press Ctrl-C, if a command runs."""
        self._check_open()
        if not self.is_running:
            return
        self._was_interrupted = True
        await self._press(b"\x03")
        await self._orders.give(report(self._word), self._patience_s)  # the first one may have been lost to it

    def page(self, start: int, num_bytes: int) -> bytes:
        """Read from what is kept of the last command's output, byte for byte: at most `output_bytes` of it."""
        return bytes(self._terminal.output[max(0, start) : max(0, start) + num_bytes])

    async def close(self) -> None:
        """End the shell and what has its terminal; safe to call twice."""
        self._was_closed = True
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
        self._has_news.set()  # for whoever waits for a command
        self._terminal.close()
        self._orders.close()
        self._reports.close()

    def _expect(self) -> None:
        self._word = str(secrets.randbits(128)).encode()  # digits, which no setting of a terminal makes others of
        self._reports.expect(self._word)

    def _wrapped(self, command: str) -> bytes:
        enters_again, self._is_to_enter_again = self._is_to_enter_again, False
        return wrapped(command, self._word, self._last_code, enters_again=enters_again)

    async def _press(self, keys: bytes) -> None:
        self._has_keys = self._has_keys or bool(keys)
        await self._terminal.press(keys, self._patience_s)

    async def _finish(self, timeout_s: float, keeps_running: bool, text: bytes = b"") -> Reply:
        try:
            is_given = await self._orders.give(text, timeout_s)
            stopped = await self._wait(timeout_s if is_given else 0.0)
        except asyncio.CancelledError:
            await seen_through(self._end_command("timed_out"))
            raise
        if stopped == "timed_out" and keeps_running and is_given:
            return self._reply("running", None)
        return await seen_through(self._end_command(stopped))

    async def _end_command(self, stopped: ReplyEnding | None) -> Reply:
        """Bring the command to its end, up to its mark, so that nothing of it comes into the next one."""
        if stopped is not None and not await self._force():
            return await self._replace(stopped)
        ended = self._reports.take()
        if ended is None:
            return await self._end(stopped or ("interrupted" if self._has_keys else None))
        self._terminal.take_until(MARK % self._word)
        self._last_code, self._cwd = ended
        is_interrupted = self._was_interrupted and self._last_code == 130
        ending = stopped or ("interrupted" if is_interrupted else "exited")
        if (stopped is not None or self._has_keys) and not await self._settle():
            return await self._replace(ending, self._last_code)
        self._word = b""
        return self._reply(ending, self._last_code)

    async def _settle(self) -> bool:
        """Have bash answer once, after all keys and signals; whether it did."""
        self._terminal.rest()
        for attempt in range(NUM_MEETINGS):
            if await self._meet(self._patience_s * 2**attempt):
                return True
        return False

    async def _meet(self, patience_s: float) -> bool:
        """Have bash do nothing and report it; whether it did, or has ended, which the next command is told."""
        output = self._terminal.output
        kept = bytes(output)
        output.clear()
        self._expect()
        has_met = await self._orders.give(self._wrapped(":"), patience_s) and await self._wait(patience_s) is None
        if has_met:
            self._terminal.take_until(MARK % self._word)
        output[:] = kept
        return has_met

    async def _end(self, disturbed: ReplyEnding | None) -> Reply:
        """Bash itself has ended, with the code that it was told to end with; or it closed its reports, and must end.

        A signal may cost a bash that lives its reports, as it opens them again after a command: another takes over.
        """
        ended = asyncio.ensure_future(self._link.answer(self.number))
        try:
            patience_s = ENDING_S if disturbed is None else self._patience_s
            lives_on = not (await asyncio.wait({ended}, timeout=patience_s))[0]
            if lives_on:
                await self._link.ask("kill", task=self.number)
            code = (await ended).said["code"]
        finally:
            ended.cancel()
        self._terminal.take_until(MARK % self._word)
        if disturbed is not None and lives_on:
            return await self._renew(disturbed, None)
        self._word = b""
        self._has_ended = True
        await self.close()
        return self._reply("shell_ended", code if code >= 0 else None)

    async def _wait(self, timeout_s: float) -> ReplyEnding | None:
        """Wait for the end; what to stop the command for otherwise."""
        if not await self._hears(timeout_s, stops_at_cap=True):
            return "over_output" if self._is_over_output() else "timed_out"
        return None

    async def _hears(self, timeout_s: float, *, stops_at_cap: bool) -> bool:
        """Wait for the end; whether it came before the time, or too much of output, had."""
        deadline = self._loop.time() + timeout_s
        while not self._reports.has_any():
            if not self._is_open:
                raise SandboxError("sandbox: this shell was closed while a command ran in it")
            left_s = deadline - self._loop.time()
            if left_s <= 0 or (stops_at_cap and self._is_over_output()):
                return False
            self._has_news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), left_s)
        return True

    def _is_over_output(self) -> bool:
        return len(self._terminal.output) > self._cap_bytes

    async def _force(self) -> bool:
        """End the command that runs; whether bash reported that."""
        for attempt in range(NUM_ATTEMPTS):
            if attempt:
                await self._link.ask("kill_foreground", task=self.number)
            if not self._reports.has_any():
                self._terminal.rest()
                self._terminal.interrupt()
                await self._orders.give(report(self._word), 0.0)
            if await self._hears(self._patience_s, stops_at_cap=False):
                return True
        return False

    async def _replace(self, ending: ReplyEnding, code: int | None = None) -> Reply:
        """Kill bash, which does not answer, and start another."""
        await self._link.ask("kill", task=self.number)
        await self._link.answer(self.number)
        return await self._renew(ending, code)

    async def _renew(self, ending: ReplyEnding, code: int | None) -> Reply:
        """Start another bash in the folder of the one that is gone."""
        output = self._terminal.output[: self._cap_bytes]
        self._let_go()
        try:
            await self._start_if_kept()
        except SandboxError:  # its folder may have gone, or lie too deep to be named
            self._cwd = "/work"
            await self._start_if_kept()
        self._terminal.output += output
        return self._reply(ending, code, has_new_shell=True)

    async def _start_if_kept(self) -> None:
        """Start, unless the shell was closed, by who restores or stops the place, before that or meanwhile."""
        if not self._was_closed:
            await self.start(self._cwd)
        if self._was_closed:
            await self.close()
            raise SandboxError("sandbox: this shell was closed while a command ran in it")

    def _reply(self, ending: ReplyEnding, exit_code: int | None, has_new_shell: bool = False) -> Reply:
        since = bytes(self._terminal.output[self._num_shown :])
        text, was_truncated = shown(since, strips_ansi=self._strips_ansi)
        return Reply(
            output=text.decode(errors="replace"),
            exit_code=exit_code,
            cwd=self._cwd.encode(errors="surrogateescape").decode(errors="replace"),
            ending=ending,
            was_truncated=was_truncated,
            has_new_shell=has_new_shell,
        )


async def seen_through(work: Coroutine[None, None, Reply]) -> Reply:
    """Await what must not stop halfway; a wait that is cancelled meanwhile is cancelled after it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: what was called off may end in any way
        raise


def _encoded(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise SandboxError(f"sandbox: bad text for a shell: {error.reason}, at character {error.start}") from None


def _pid_of(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
