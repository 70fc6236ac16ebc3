"""Tries: reconfigure the network.

Must: be refused: an error, and nothing done.
"""

import socket

socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
