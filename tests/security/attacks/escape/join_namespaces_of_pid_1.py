"""Tries: join the namespaces of the first process by a handle of it.

Must: be refused.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
handle = os.pidfd_open(1)
if libc.setns(handle, 0x2C020000) == -1:
    raise OSError(ctypes.get_errno(), "refused")
