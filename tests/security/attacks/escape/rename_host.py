"""Tries: rename the host.

Must: be refused: an error, and nothing done.
"""

import socket

socket.sethostname("evil")
