"""Limits of a process, which go down and never up: the host's own may be lower than what is asked for."""

import contextlib
import resource
import sys
from typing import Final


def lower(name: int, soft: int, hard: int) -> None:
    """Set a limit as far as the one in force allows it."""
    allowed = most(name)
    resource.setrlimit(name, (min(soft, allowed), min(hard, allowed)))


def most(name: int) -> int:
    """How high a limit can be set."""
    allowed = resource.getrlimit(name)[1]
    return sys.maxsize if allowed == resource.RLIM_INFINITY else allowed


CORE_BYTES: Final = 1
"""Where cores go to a program of the host's, as with systemd, the kernel heeds no limit but this one: with 0 it would
start that program, as the host's root, for each job that crashes."""


def forbid_cores() -> None:
    """Let a crash leave no core, in a file or with a program; a lower limit that only root could raise stays."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (CORE_BYTES, CORE_BYTES))
