"""Tries: be traced.

Must: be refused: an error, and nothing done.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0, 0, 0, 0) == -1:
    raise OSError(ctypes.get_errno(), "refused")
