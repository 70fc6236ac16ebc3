"""Tries: give no result.

Must: be refused by the reader, at once.
"""

READS = "out.txt"

open("other.txt", "w").close()
