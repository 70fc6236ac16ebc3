"""Tries: find in its own memory, which began as another process's, the text of a job that ran before.

Must: be refused: an error, and nothing done.
"""

MASK = bytes(i ^ 0x55 for i in range(256))
MASKED = bytes.fromhex("2730383b34212162213d30623a213d3027")
kept = MASKED.translate(MASK)
found = 0
with open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in open("/proc/self/maps"):
        first, last = (int(place, 16) for place in line.split()[0].split("-"))
        if "rw" in line.split()[1]:
            memory.seek(first)
            found += memory.read(last - first).translate(MASK).count(MASKED)
if not found:
    raise OSError("not even what is kept here is found")
if found == 1:
    raise OSError("only what is kept here is found")
