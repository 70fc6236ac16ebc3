"""Tries: carry data out in the names that it looks up.

Must: be refused: an error, and nothing done.
"""

import socket

socket.getaddrinfo("example.com", 80)
