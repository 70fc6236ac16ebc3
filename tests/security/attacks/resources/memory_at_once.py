"""Tries: take a gigabyte at once.

Must: be stopped at the memory limit.
"""

ENDINGS = ("over_memory",)

x = bytearray(1 << 30)
