"""Tries: a socket of every family and type there is.

Must: get those of UNIX alone.
"""

import socket

found = []
for family in range(64):
    for kind in (1, 2, 3, 4, 5, 6, 10):
        for make in (socket.socket, socket.socketpair):
            try:
                make(family, kind)
            except OSError:
                continue
            found.append(family)
if set(found) == {socket.AF_UNIX}:
    raise OSError("no other")
