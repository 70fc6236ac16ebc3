"""Limits of a process, which go down and never up: the host's own may be lower than what is asked for."""

import resource


def lower(name: int, soft: int, hard: int) -> None:
    """Set a limit as far as the one in force allows it."""
    most = resource.getrlimit(name)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(name, (soft, hard))
