"""Tries: a namespace of its own of each kind, by each call.

Must: be refused each of them.
"""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
clone = 56 if os.uname().machine == "x86_64" else 220
got = []
for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    if libc.unshare(flag) == 0:
        got.append(flag)
    if flag == 0x80:
        continue  # in clone, this would be a part of the signal's number
    child = libc.syscall(ctypes.c_long(clone), ctypes.c_long(flag | 17), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        got.append(flag)
if not got:
    raise PermissionError
