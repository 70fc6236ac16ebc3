"""Tries: reach the kernel's ciphers.

Must: be refused: an error, and nothing done.
"""

import socket

socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
