"""Tries: take huge pages of the host's pool, which no limit on memory counts.

Must: be refused, also where the pool is empty.
"""

import errno
import mmap

try:
    mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
except OSError as error:
    if error.errno == errno.EPERM:
        raise
