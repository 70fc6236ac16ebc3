"""Tries: take memory by the megabyte.

Must: be stopped at the memory limit.
"""

ENDINGS = ("over_memory",)

x = []
while True:
    x.append(bytearray(1 << 20))
