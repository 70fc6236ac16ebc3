"""Tries: load a program into the kernel.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
NUMBER = 321 if os.uname().machine == "x86_64" else 280
if libc.syscall(NUMBER, 5, 0, 0) == -1:
    raise OSError(ctypes.get_errno(), "refused")
