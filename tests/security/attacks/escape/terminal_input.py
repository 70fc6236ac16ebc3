"""Tries: type into the terminal that started it.

Must: be refused: an error, and nothing done.
"""

import fcntl

fcntl.ioctl(0, 0x5412, b"x")
