"""Tries: mount a file system.

Must: be refused: an error, and nothing done.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == -1:
    raise OSError(ctypes.get_errno(), "refused")
