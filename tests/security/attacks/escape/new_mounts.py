"""Tries: get mounts of its own.

Must: be refused: an error, and nothing done.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x00020000) == -1:
    raise OSError(ctypes.get_errno(), "refused")
