"""Files of `/proc` that a slot looks at after each job: they start anew at each read.

What is read goes into one page, which is wiped: names and numbers that a job chose may be in it.
"""

import mmap
import os


class ProcFiles:
    """The server's own `/proc`, and the page."""

    def __init__(self, proc_fd: int) -> None:
        self._proc_fd = proc_fd
        self._page = bytearray(mmap.PAGESIZE)

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open one; -1 where this kernel has none such."""
        try:
            return os.open(path, flags | os.O_CLOEXEC, dir_fd=self._proc_fd)
        except OSError:
            return -1

    def has_text(self, fd: int) -> bool:
        """Whether there is anything to read; so it is said of a file that could not be opened, too."""
        return fd < 0 or os.preadv(fd, [self._page], 0) > 0

    def starts_with(self, fd: int, text: bytes) -> bool:
        """Whether it begins so; not so of a file that could not be opened."""
        return fd >= 0 and os.preadv(fd, [self._page], 0) > 0 and self._page.startswith(text)

    def forget(self) -> None:
        """Wipe what was read."""
        self._page[:] = bytes(mmap.PAGESIZE)


def close(fd: int) -> None:
    """Close what `open` gave."""
    if fd >= 0:
        os.close(fd)
