"""Tries: count the host's events.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
NUMBER = 298 if os.uname().machine == "x86_64" else 241
if libc.syscall(NUMBER, 0, 0, -1, -1, 0) == -1:
    raise OSError(ctypes.get_errno(), "refused")
