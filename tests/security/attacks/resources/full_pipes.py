"""Tries: fill as many and as large pipes as there are.

Must: meet its limits.
"""

import fcntl
import os

for _ in range(10_000):
    _, write_end = os.pipe()
    fcntl.fcntl(write_end, 1031, 1 << 20)
    os.set_blocking(write_end, False)
    os.write(write_end, bytes(1 << 20))
