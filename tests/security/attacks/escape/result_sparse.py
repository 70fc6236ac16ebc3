"""Tries: give a file that seems huge as its result.

Must: be refused by the reader, at once.
"""

READS = "out.txt"

with open("out.txt", "wb") as file:
    file.truncate(3 << 20)
