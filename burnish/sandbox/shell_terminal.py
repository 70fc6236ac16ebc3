"""The far side of a shell's terminal: what was shown on it, what is typed, and how both come to rest.

The kernel works off what is written to a terminal in threads of its own, so a key that was pressed takes effect some
time later: a Ctrl-C could meet the next command. `rest` waits for that, as the kernel does for whoever polls the near
side, and takes back what nobody has read. `interrupt` asks the kernel for the signal itself, which is sent when it
returns, whatever the program has made of the terminal. Reading the far side waits for what was written likewise, so
that what a program wrote before it reported anything is there.

Not covered: a program that keeps all others from opening the terminal (TIOCEXCL); its keys may come late.
"""

import asyncio
import fcntl
import os
import select
import signal
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Final

CHUNK_BYTES: Final = 1 << 16
MAX_CHUNKS: Final = 64
"""What is read for a mark that does not come, while something goes on writing."""
TIOCSIG: Final = 0x4004_5436
TIOCGPTPEER: Final = 0x5441
MAX_FLUSHES: Final = 64
"""More than the kernel keeps of keys, 4096 at a time."""
LOOK_EVERY_S: Final = 0.01


class Terminal:
    """A terminal of which `fd`, the far side, is closed with it."""

    def __init__(self, fd: int, cap_bytes: int, on_news: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd, self._cap_bytes, self._on_news = fd, cap_bytes, on_news
        self.output = bytearray()
        self._is_closed = False
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._hear)

    def _hear(self) -> None:
        self._read()
        self._on_news()

    def _read(self) -> bool:
        """Take a chunk; whether there was one. Of what exceeds the cap, the end is kept, where a mark may be."""
        if self._is_closed:
            return False
        try:
            chunk = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # nobody has the terminal any more
            self._loop.remove_reader(self._fd)
            return False
        self.output += chunk
        del self.output[self._cap_bytes + CHUNK_BYTES : -CHUNK_BYTES]
        return True

    def take_until(self, mark: bytes) -> None:
        """Read all that was shown before a mark, and cut it off there; all that there is, if it does not come."""
        for _ in range(MAX_CHUNKS):
            at = self.output.find(mark)
            if at >= 0:
                del self.output[at:]
            if at >= 0 or not self._read():
                break
        del self.output[self._cap_bytes :]

    def interrupt(self) -> None:
        """Send what Ctrl-C stands for to the group that has the terminal; it is sent when this returns."""
        with suppress(OSError):  # nobody has the terminal any more
            if not self._is_closed:
                fcntl.ioctl(self._fd, TIOCSIG, signal.SIGINT)

    async def press(self, keys: bytes, patience_s: float) -> None:
        """Press keys; a program that reads none of them may let them be lost."""
        deadline = self._loop.time() + patience_s
        while keys and not self._is_closed and self._loop.time() < deadline:
            try:
                keys = keys[os.write(self._fd, keys) :]
            except BlockingIOError:
                await asyncio.sleep(LOOK_EVERY_S)
            except OSError:  # nobody has the terminal any more
                return

    def rest(self) -> None:
        """Have every key take effect now, drop those that nobody has read, and let output flow that was stopped."""
        if self._is_closed:
            return
        with suppress(OSError):
            near = fcntl.ioctl(self._fd, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                poll = select.poll()
                poll.register(near, select.POLLIN)
                for _ in range(MAX_FLUSHES):
                    termios.tcflush(near, termios.TCIFLUSH)
                    if not poll.poll(0):
                        break
                termios.tcflush(near, termios.TCIFLUSH)
                termios.tcflow(near, termios.TCOON)
            finally:
                os.close(near)

    def close(self) -> None:
        """Let it go."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._is_closed = True  # the number may be another's from now on
