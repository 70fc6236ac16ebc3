"""Tries: talk to the outside world.

Must: be refused: an error, and nothing done.
"""

import socket

socket.create_connection(("1.1.1.1", 53), timeout=1)
