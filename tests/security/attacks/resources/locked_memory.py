"""Tries: lock memory so that it cannot be paged out.

Must: be refused: an error, and nothing done.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
memory = ctypes.create_string_buffer(1 << 20)
if libc.mlock(memory, 1 << 20) == -1:
    raise OSError(ctypes.get_errno(), "refused")
