"""Tries: read the memory of its parent by a system call.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
if libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0) == -1:
    raise OSError(ctypes.get_errno(), "refused")
