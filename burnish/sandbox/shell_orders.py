"""What a shell's bash is still to read: in order, and never a half of one line before another."""

import asyncio
import socket
from typing import Final

LOOK_EVERY_S: Final = 0.01


class Orders:
    """Our end of the socket that bash reads its commands from; closed with it."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._left = b""
        link.setblocking(False)

    async def give(self, text: bytes, timeout_s: float) -> bool:
        """Hand bash what it is to do; whether it took all. What it did not comes before whatever is given next."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        self._left += text
        while self._left:
            try:
                self._left = self._left[self._link.send(self._left) :]
            except BlockingIOError:  # something has stopped it, so that it reads nothing
                if loop.time() >= deadline:
                    return False
                await asyncio.sleep(LOOK_EVERY_S)
            except OSError:  # killed or closed meanwhile, which is met by whoever waits for its report
                self._left = b""
        return True

    def close(self) -> None:
        """Let it go."""
        self._link.close()
