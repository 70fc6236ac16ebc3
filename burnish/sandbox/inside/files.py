"""Open a file that code may have made, without following it anywhere.

Each step is relative to the folder that the last one opened, and none follows a link, so what is moved or
replaced meanwhile cannot lead out. O_NONBLOCK: neither a FIFO nor a lease holds the keeper up.
"""

import contextlib
import os
import stat


def open_beneath(folder: int, names: list[str], is_write: bool) -> int:
    """Walk down from `folder`, which is closed; links, and whatever is no regular file, are errors."""
    if not names or any(name in ("", ".", "..") or "/" in name for name in names):
        os.close(folder)
        raise ValueError(f"not a plain path of a file: {'/'.join(names)!r}")
    try:
        for name in names[:-1]:
            if is_write:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        flags = os.O_WRONLY | os.O_CREAT if is_write else os.O_RDONLY
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        file = os.open(names[-1], flags, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ValueError("not a regular file")
    return file
