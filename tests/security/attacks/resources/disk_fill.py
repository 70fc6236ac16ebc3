"""Tries: fill the disk.

Must: be refused: an error, and nothing done.
"""

with open("/tmp/big", "wb", buffering=0) as file:
    for _ in range(64):
        if file.write(bytes(1 << 20)) < 1 << 20:
            raise OSError("short")
