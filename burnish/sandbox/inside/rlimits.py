"""Limits of a process, which go down and never up: the host's own may be lower than what is asked for."""

import resource
import sys


def lower(name: int, soft: int, hard: int) -> None:
    """Set a limit as far as the one in force allows it."""
    allowed = most(name)
    resource.setrlimit(name, (min(soft, allowed), min(hard, allowed)))


def most(name: int) -> int:
    """How high a limit can be set."""
    allowed = resource.getrlimit(name)[1]
    return sys.maxsize if allowed == resource.RLIM_INFINITY else allowed
