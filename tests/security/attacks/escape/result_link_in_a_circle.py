"""Tries: give a link to itself as its result.

Must: be refused by the reader, at once.
"""

import os

READS = "out.txt"

os.symlink("out.txt", "out.txt")
