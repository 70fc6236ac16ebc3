"""Tries: fill the disk with attributes of files, which no size shows.

Must: meet the limit of the disk.
"""

import os

ENDINGS = ("exited", "killed")
with open("/tmp/file", "w"):
    pass
for number in range(10_000):
    os.setxattr("/tmp/file", f"user.{number}", bytes(60_000))
