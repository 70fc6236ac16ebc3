"""Tries: list the kernel's devices and groups.

Must: be refused: an error, and nothing done.
"""

import os

if not os.listdir("/sys/kernel"):
    raise OSError("nothing there")
