"""Tries: wait, deaf to signals, for a child that never becomes a program.

Must: end at the deadline.
"""

import ctypes
import os
import signal

LIMITS = {"wall_s": 2.0}
ENDINGS = ("timed_out",)
for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_IGN)
libc = ctypes.CDLL(None)
clone = 56 if os.uname().machine == "x86_64" else 220
if libc.syscall(clone, 0x4111, 0, 0, 0, 0) == 0:
    libc.sleep(600)
    libc._exit(0)
