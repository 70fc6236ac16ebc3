"""Tries: make a file that seems huge.

Must: be refused: an error, and nothing done.
"""

with open("/tmp/sparse", "wb") as file:
    file.truncate(1 << 40)
