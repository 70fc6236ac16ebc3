"""Tries: turn its stdout into packets, which a small read would cut, and make it empty ones.

Must: be read as it was written.
"""

import fcntl
import os

fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)
os.write(1, b"")
raise OSError("written")
