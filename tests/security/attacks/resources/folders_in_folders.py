"""Tries: make a tree so deep that no path reaches its end.

Must: meet the limit on files.
"""

import os

ENDINGS = ("exited", "killed")
while True:
    os.mkdir("folder" * 40)
    os.chdir("folder" * 40)
