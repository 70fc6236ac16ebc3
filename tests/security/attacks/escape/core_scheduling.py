"""Tries: let no other program run beside it on the same processor core.

Must: be refused, also where the kernel does not know how.
"""

import ctypes
import errno

libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(62, 1, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM:
    raise PermissionError
