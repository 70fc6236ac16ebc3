"""Tries: cut its address space into pieces without end.

Must: meet a limit.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
for number in range(1 << 20):
    at = libc.mmap(None, ctypes.c_size_t(4096), 1 + 2 * (number % 2), 0x22, -1, ctypes.c_long(0))
    if at == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "enough")
