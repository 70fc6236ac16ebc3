"""Tries: give a folder as its result.

Must: be refused by the reader, at once.
"""

import os

READS = "out.txt"

os.mkdir("out.txt")
