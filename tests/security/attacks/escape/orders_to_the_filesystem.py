"""Tries: freeze, trim or mark the filesystem that the library lies on.

Must: be refused each of them.
"""

import array
import fcntl
import os

library = os.open(os.__file__, os.O_RDONLY)
ORDERS = (0xC0045877, 0xC0045878, 0xC0185879, 0x40086602, 0x40087602, 0x401C5820)  # freeze, thaw, trim, flags, version
met = []
for order in ORDERS:
    try:
        fcntl.ioctl(library, order, array.array("Q", [0, 1 << 40, 0, 0]))
        met.append(order)
    except OSError:
        continue
if not met:
    raise PermissionError
