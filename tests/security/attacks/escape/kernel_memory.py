"""Tries: read the kernel's memory.

Must: be refused: an error, and nothing done.
"""

open("/proc/kcore", "rb").read(1)
