"""Tries: write into a file of the library through a mapping that may only be read.

Must: leave the file as it is.
"""

import ctypes
import mmap
import os

with open(os.__file__, "rb") as file:
    view = mmap.mmap(file.fileno(), mmap.PAGESIZE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
before = view[:4]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
with open(os.__file__, "rb") as file:
    at = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), 1, 1, file.fileno(), ctypes.c_long(0))
try:
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        memory.write(b"evil")
except (OSError, OverflowError):
    pass
libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(mmap.PAGESIZE), 3)
if view[:4] == before and open(os.__file__, "rb").read(4) == before:
    raise PermissionError
