"""Tries: make a file that runs as root.

Must: be refused: an error, and nothing done.
"""

import os

open("/tmp/s", "w").close()
os.chown("/tmp/s", 0, 0)
