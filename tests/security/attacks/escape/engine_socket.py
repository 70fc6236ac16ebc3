"""Tries: command the container engine.

Must: be refused: an error, and nothing done.
"""

import socket

socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock")
