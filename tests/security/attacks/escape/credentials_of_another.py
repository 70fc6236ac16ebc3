"""Tries: say in a message that another process sent it.

Must: be refused.
"""

import socket
import struct

here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
there.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", 1, 0, 0))])
