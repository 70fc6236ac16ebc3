"""Tries: have the host write all that its disks still wait for, again and again, and wait for it unkillably.

Must: reach no disk: each call returns at once.
"""

import ctypes
import os
import time

libc = ctypes.CDLL(None, use_errno=True)
library = os.open(os.__file__, os.O_RDONLY)
began = time.process_time()
for _ in range(1000):
    os.sync()
    libc.syncfs(library)
if time.process_time() - began < 0.5:
    raise OSError("nothing was done")
