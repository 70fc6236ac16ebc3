"""Tries: give a link to a descriptor as its result.

Must: be refused by the reader, at once.
"""

import os

READS = "out.txt"

os.symlink("/proc/self/fd/0", "out.txt")
