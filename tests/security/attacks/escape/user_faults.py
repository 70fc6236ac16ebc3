"""Tries: handle page faults, to slow the kernel down.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
NUMBER = 323 if os.uname().machine == "x86_64" else 282
if libc.syscall(NUMBER, 0) == -1:
    raise OSError(ctypes.get_errno(), "refused")
