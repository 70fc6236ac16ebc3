"""Tries: make more folders in shared memory than it may.

Must: be refused: an error, and nothing done.
"""

import os

for number in range(5000):
    os.mkdir(f"/dev/shm/{number}")
