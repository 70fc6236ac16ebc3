"""Tries: take back what it wrote between the reader's look and its read, so that the reader waits past the deadline.

Must: end at the deadline.
"""

import os
import time

LIMITS = {"wall_s": 3.0}
ENDINGS = ("timed_out",)
back = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
for _ in range(2):
    os.fork()
for _ in range(20_000):
    os.write(1, b"x")
    try:
        os.read(back, 64)
    except BlockingIOError:
        pass
time.sleep(60)
