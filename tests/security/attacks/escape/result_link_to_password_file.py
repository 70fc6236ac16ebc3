"""Tries: give a link to a file of the host as its result.

Must: be refused by the reader, at once.
"""

import os

READS = "out.txt"

os.symlink("/etc/passwd", "out.txt")
