"""Tries: give a program of its own a capability, and run it.

Must: be refused.
"""

import os
import struct

with open("/tmp/program", "wb") as file:
    file.write(b"#!/python/bin/python3\n")
os.setxattr("/tmp/program", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 21, 0, 0, 0))
