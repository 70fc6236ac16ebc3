"""Tries: take slots for asynchronous I/O, of which the whole host has only so many.

Must: be refused.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
number = 206 if os.uname().machine == "x86_64" else 0
if libc.syscall(ctypes.c_long(number), ctypes.c_long(60_000), ctypes.byref(ctypes.c_ulong(0))) == -1:
    raise OSError(ctypes.get_errno(), "refused")
