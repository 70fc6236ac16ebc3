"""Tries: start a process that is its parent's child and not its own, so that nobody finds it left.

Must: be refused: an error, and nothing done.
"""

import ctypes
import os
import platform
import signal
import time

CLONE_PARENT = 0x8000
libc = ctypes.CDLL(None, use_errno=True)
pid = libc.syscall({"x86_64": 56, "aarch64": 220}[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0:
    os.closerange(0, 64)
    time.sleep(30)
    os._exit(0)
if pid < 0:
    raise OSError(ctypes.get_errno(), "clone")
