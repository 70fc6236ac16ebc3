"""Work that is killed at a chosen moment."""

import os
import signal
import sys
import traceback
from collections.abc import Callable


def was_killed(work: Callable[[], object], *, before_event: int) -> bool:
    """Do the work in a process that is killed before it opens, renames, changes or removes a file so many times."""
    child = os.fork()
    if child == 0:
        left = before_event

        def count(event: str, _: object) -> None:
            nonlocal left
            if event.partition(".")[0] in ("open", "os", "shutil", "tempfile", "fcntl"):
                left -= 1
                if left < 0:
                    signal.raise_signal(signal.SIGKILL)

        sys.addaudithook(count)
        try:
            work()
        except BaseException:  # noqa: BLE001  this copy of the tests must not go on
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
