"""Tries: send descriptors that nobody receives, each with a full pipe behind it.

Must: meet its limits.
"""

import array
import os
import socket

near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
near.setblocking(False)
for _ in range(10_000):
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    os.write(ends[1], bytes(1 << 16))
    near.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", ends))])
    for end in ends:
        os.close(end)
