"""Tries: read the memory of the first process.

Must: be refused: an error, and nothing done.
"""

import os

fd = os.open("/proc/1/mem", os.O_RDONLY)
os.read(fd, 1)
