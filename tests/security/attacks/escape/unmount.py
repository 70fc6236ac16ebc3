"""Tries: take its disk away, to see what lies below.

Must: be refused: an error, and nothing done.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.umount2(b"/tmp", 2) == -1:
    raise OSError(ctypes.get_errno(), "refused")
