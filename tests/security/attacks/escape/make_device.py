"""Tries: make a device for the host's memory.

Must: be refused: an error, and nothing done.
"""

import os

os.mknod("/tmp/mem", 0o666 | 0o020000, os.makedev(1, 1))
