"""Tries: fill shared memory.

Must: be refused: an error, and nothing done.
"""

with open("/dev/shm/big", "wb", buffering=0) as file:
    for _ in range(64):
        if file.write(bytes(1 << 20)) < 1 << 20:
            raise OSError("short")
