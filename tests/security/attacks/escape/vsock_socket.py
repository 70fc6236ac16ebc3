"""Tries: talk to the hypervisor, past the network namespace.

Must: be refused: an error, and nothing done.
"""

import socket

socket.socket(40, socket.SOCK_STREAM)
