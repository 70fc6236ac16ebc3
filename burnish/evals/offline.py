"""Prove that a piece of work needs no network: what reaches for one is refused and noted.

An audit hook of the interpreter sees each connection before it is made. It cannot be taken out again, so it is
set once, and idle unless a block is on. Covered: this process, all its threads, TCP, UDP, names. Not covered: other
processes, C code that makes system calls of its own. Sockets of the local machine that have a path are no network.
"""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

REACHES_OUT = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"})

_blocks: list[list[str]] = []
_is_set: list[bool] = []


@contextmanager
def offline() -> Iterator[list[str]]:
    """Within the block no connection is made; the list says which were tried."""
    if not _is_set:
        sys.addaudithook(_refuse)
        _is_set.append(True)
    tried: list[str] = []
    _blocks.append(tried)
    try:
        yield tried
    finally:
        _blocks.remove(tried)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if not _blocks or event not in REACHES_OUT:
        return
    target = arguments[0] if event in ("socket.getaddrinfo", "socket.gethostbyname") else arguments[1]
    if event in ("socket.connect", "socket.sendto") and isinstance(target, str | bytes):
        return  # a socket with a path
    for tried in _blocks:
        tried.append(f"{event} {target!r}")
    raise OSError(errno.ENETUNREACH, "no network while a verifier is checked")
