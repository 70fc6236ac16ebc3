"""Tries: take memory in processes that are small each.

Must: be stopped at the limit of the whole tree.
"""

import os
import time

LIMITS = {"wall_s": 15.0}
ENDINGS = ("over_memory",)

for _ in range(2):
    os.fork()
x = bytearray(os.urandom(1 << 10)) * (60 << 10)
time.sleep(9)
