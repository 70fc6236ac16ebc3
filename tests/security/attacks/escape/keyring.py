"""Tries: use the kernel's key store.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
NUMBER = 250 if os.uname().machine == "x86_64" else 219
if libc.syscall(NUMBER, 0, -3, 1) == -1:
    raise OSError(ctypes.get_errno(), "refused")
