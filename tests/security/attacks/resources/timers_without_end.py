"""Tries: set timers and queue signals without end.

Must: meet its limits.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
for _ in range(1 << 16):
    if libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())):
        raise OSError(ctypes.get_errno(), "enough")
