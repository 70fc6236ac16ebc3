"""Tries: see the command lines of the host's processes.

Must: be refused: an error, and nothing done.
"""

import os

if not [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 64]:
    raise OSError("only its own")
