"""Temporary folders whose owner may be killed: the next process that needs such a folder removes what one left.

Each holds a file that its owner keeps locked. The kernel lets go of a lock when its process dies, however it dies and
on whichever host, so a lock that can be taken says that nobody is left to remove the folder. The file has its lock
before it has its name: there is no moment at which a folder in use looks abandoned.

Covered: Linux and macOS, folders that several hosts share where their file system passes `flock` on (NFS 4 does). Not
covered: a kill within the first moments, before the lock has its name, which leaves a folder without contents.
"""

import fcntl
import shutil
import tempfile
from pathlib import Path

_LOCK = ".in-use"


class Scratch:
    """A folder of this process, in `where` or where temporary files go; `close` removes it."""

    def __init__(self, prefix: str, where: Path | None = None) -> None:
        parent = where or Path(tempfile.gettempdir())
        sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        nameless = self.path / f"{_LOCK}.new"
        self._lock = nameless.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        nameless.rename(self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder; safe to call twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep(parent: Path, prefix: str) -> None:
    """Remove folders of that prefix whose owners are gone."""
    for folder in parent.glob(f"{prefix}*"):
        if _is_abandoned(folder / _LOCK):
            shutil.rmtree(folder, ignore_errors=True)  # another process may be at it as well


def _is_abandoned(lock: Path) -> bool:
    try:
        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is locked, is not there yet, is gone already, or is another user's
        return False
    return True
