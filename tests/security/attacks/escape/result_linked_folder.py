"""Tries: put its result behind a linked folder.

Must: be refused by the reader, at once.
"""

import os

READS = "sub/hostname"

os.symlink("/etc", "sub")
