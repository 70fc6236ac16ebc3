"""Tries: give a socket as its result.

Must: be refused by the reader, at once.
"""

import socket

READS = "out.txt"

socket.socket(socket.AF_UNIX).bind("out.txt")
