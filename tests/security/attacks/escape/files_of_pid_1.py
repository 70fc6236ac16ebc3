"""Tries: open what the kernel shows about the first process.

Must: be refused each of them.
"""

import os

opened = []
for name in (
    "mem",
    "environ",
    "maps",
    "smaps",
    "exe",
    "cwd",
    "root",
    "fd",
    "fdinfo",
    "ns/pid",
    "auxv",
    "pagemap",
    "io",
):
    try:
        opened.append(os.open(f"/proc/1/{name}", os.O_RDONLY))
    except OSError:
        continue
if not opened:
    raise PermissionError
