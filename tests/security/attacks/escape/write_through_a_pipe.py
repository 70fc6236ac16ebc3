"""Tries: write into a page of the library that a pipe borrows.

Must: leave the file as it is.
"""

import os

before = open(os.__file__, "rb").read(16)
read_end, write_end = os.pipe()
for _ in range(16):  # every slot of the pipe once, so that each may have kept a mark
    os.write(write_end, bytes(4096))
for _ in range(16):
    os.read(read_end, 4096)
library = os.open(os.__file__, os.O_RDONLY)
os.splice(library, write_end, 1, offset_src=0)
os.write(write_end, b"evil")
if open(os.__file__, "rb").read(16) == before:
    raise PermissionError
