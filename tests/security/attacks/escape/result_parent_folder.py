"""Tries: name a file outside its folder.

Must: be refused by the reader, at once.
"""

READS = "../../etc/passwd"

pass
