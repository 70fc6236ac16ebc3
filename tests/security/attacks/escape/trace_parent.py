"""Tries: trace its parent.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, os.getppid(), 0, 0) == -1:
    raise OSError(ctypes.get_errno(), "refused")
