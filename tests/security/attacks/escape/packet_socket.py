"""Tries: listen to the network.

Must: be refused: an error, and nothing done.
"""

import socket

socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
