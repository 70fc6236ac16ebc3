"""Tries: reach a service of the trainer by an abstract name.

Must: be refused: an error, and nothing done.
"""

import socket

socket.socket(socket.AF_UNIX).connect("\0burnish")
