"""Tries: take a descriptor of the first process.

Must: be refused: an error, and nothing done.
"""

open("/proc/1/fd/3", "rb").read(1)
