"""Tries: hold capabilities by each call that gives some.

Must: hold none.
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
libc.capset(header, (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6))
for capability in range(64):
    libc.prctl(47, 2, capability, 0, 0)  # PR_CAP_AMBIENT_RAISE
libc.prctl(28, 1, 0, 0, 0)  # PR_SET_SECUREBITS
libc.prctl(38, 0, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, off
libc.setfsuid(0)
lines = open("/proc/self/status").read().splitlines()
held = [line for line in lines if line.startswith("Cap") and int(line.split()[1], 16)]
if not held and "NoNewPrivs:\t1" in lines:
    raise PermissionError
