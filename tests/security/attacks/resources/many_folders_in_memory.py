"""Tries: make more folders in shared memory than it may.

Must: be refused, or be stopped by a backend that counts files from outside.
"""

import os

ENDINGS = ("exited", "killed")

for number in range(5000):
    os.mkdir(f"/dev/shm/{number}")
