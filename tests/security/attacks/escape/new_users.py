"""Tries: become root in a user namespace of its own.

Must: be refused: an error, and nothing done.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000) == -1:
    raise OSError(ctypes.get_errno(), "refused")
