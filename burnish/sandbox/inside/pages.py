"""Gather this process's private memory into huge pages, so that a fork copies fewer entries.

A fork copies one entry a page, twice a job here; with a large preload that is most of a job's cost.
Needs Linux 6.1 (MADV_COLLAPSE); a kernel that will not is left as it is.
"""

import ctypes
from collections.abc import Iterator
from typing import Final

HUGE_BYTES: Final = 2 << 20
MADV_COLLAPSE: Final = 25


def collapse() -> None:
    """Ask for it, for all anonymous memory; what cannot be collapsed stays as it is."""
    libc = ctypes.PyDLL(None)
    for start, end in list(_anonymous_ranges()):
        first, last = -(-start // HUGE_BYTES) * HUGE_BYTES, end // HUGE_BYTES * HUGE_BYTES
        if first < last:
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), ctypes.c_int(MADV_COLLAPSE))


def _anonymous_ranges() -> Iterator[tuple[int, int]]:
    with open("/proc/self/maps") as file:
        for line in file:
            span, rights, _, _, inode, *name = line.split()
            if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
                start, _, end = span.partition("-")
                yield int(start, 16), int(end, 16)
