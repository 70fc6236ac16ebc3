"""Tries: load a kernel module.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
NUMBER = 175 if os.uname().machine == "x86_64" else 105
if libc.syscall(NUMBER, b"x", 1, b"") == -1:
    raise OSError(ctypes.get_errno(), "refused")
