"""Tries: send a datagram to the outside world.

Must: be refused: an error, and nothing done.
"""

import socket

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 53))
