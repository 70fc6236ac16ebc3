"""Errors as a person meets them: one message on stderr, an exit code, no traceback.

Covered: the project's own errors, the faults of disks and folders, Ctrl-C. Not covered, on purpose:
anything else is a bug in Burnish, and its traceback is what a report of it needs.
"""

import errno
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from burnish.core.errors import BurnishError

STOPPED = 130

WAYS_OUT = {
    errno.ENOSPC: "free some space, or choose a folder on another disk (--runs DIR)",
    errno.EDQUOT: "free some of your quota, or choose a folder on another disk (--runs DIR)",
    errno.EROFS: "choose a folder that can be written (--runs DIR)",
    errno.EACCES: "give yourself permission, or choose another folder (--runs DIR)",
    errno.EPERM: "give yourself permission, or choose another folder (--runs DIR)",
    errno.ENOTDIR: "a part of this path is a file; choose another folder (--runs DIR)",
    errno.ENAMETOOLONG: "choose a shorter path (--runs DIR)",
    errno.EEXIST: "something of another kind has this name; choose another folder (--runs DIR)",
}

P = ParamSpec("P")


def polite(command: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command, so that what the user can put right is a message and not a traceback."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BurnishError as error:
            _leave(str(error), error.exit_code)
        except OSError as error:
            if error.errno not in WAYS_OUT:
                raise
            _leave(disk_message(error), BurnishError.exit_code)
        except KeyboardInterrupt:
            _leave("stopped", STOPPED, prefix="")

    return wrapped


def disk_message(error: OSError) -> str:
    """Say what failed where, and the way out."""
    where = f" at {str(error.filename)!r}" if error.filename is not None else ""
    return f"{error.strerror}{where}; {WAYS_OUT[error.errno or 0]}"


def _leave(message: str, exit_code: int, prefix: str = "burnish: ") -> None:
    typer.echo(prefix + message, err=True)
    raise typer.Exit(exit_code)
