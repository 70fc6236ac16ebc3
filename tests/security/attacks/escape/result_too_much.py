"""Tries: give more than its cap as its result.

Must: be refused by the reader, at once.
"""

READS = "out.txt"

open("out.txt", "wb").write(bytes(100_000))
