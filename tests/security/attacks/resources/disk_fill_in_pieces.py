"""Tries: fill the disk with many small files.

Must: be refused: an error, and nothing done.
"""

for number in range(64):
    with open(f"/tmp/{number}", "wb", buffering=0) as file:
        if file.write(bytes(1 << 19)) < 1 << 19:
            raise OSError("short")
