"""Tries: give a pipe as its result, so that the reader waits for ever.

Must: be refused by the reader, at once.
"""

import os

READS = "out.txt"

os.mkfifo("out.txt")
