"""Ctrl-C within two seconds, even while the processor is deep in one long tensor operation.

Python raises KeyboardInterrupt only between bytecodes; a backward pass can take many seconds. The
operating system's note of the signal reaches a second thread at once: it gives the main thread
`grace_s` to stop in good order, then ends the process. A run can be resumed from any kill, and its
sandboxes end when it does, so nothing is lost and nothing is left. Nor does a stopped run wait for the
interpreter to take itself apart (`leave_now`): with torch and a model in it, that alone can take seconds.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

EXIT_CODE = 130


@contextmanager
def prompt_interrupt(*, message: str, grace_s: float = 0.5) -> Iterator[None]:
    """Within the block, SIGINT ends the process after `grace_s` if the block has not ended by then."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    has_ended = threading.Event()

    def watch() -> None:
        while (signals := os.read(reader, 64)) and signal.SIGINT not in signals:
            pass
        if signals and not has_ended.wait(grace_s):
            sys.stderr.write(message + "\n")
            sys.stderr.flush()
            os._exit(EXIT_CODE)  # not `leave_now`: the main thread may hold stdout

    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    previous_hook, sys.unraisablehook = sys.unraisablehook, _told_elsewhere(sys.unraisablehook)
    watcher = threading.Thread(target=watch, name="burnish-interrupt", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        has_ended.set()
        sys.unraisablehook = previous_hook
        signal.set_wakeup_fd(previous)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _told_elsewhere(
    hook: "Callable[[sys.UnraisableHookArgs], object]",
) -> "Callable[[sys.UnraisableHookArgs], object]":
    """A Ctrl-C that meets a callback which nobody hears is no traceback: the watcher ends the process."""

    def told(unraisable: "sys.UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            hook(unraisable)

    return told


def leave_now(exit_code: int) -> NoReturn:
    """End the process as it is, once its output is written; what must be closed has been closed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
