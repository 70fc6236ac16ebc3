"""Tries: fork without end.

Must: be stopped with all its children.
"""

import os

LIMITS = {"wall_s": 0.6, "cpu_s": 0.4}
ENDINGS = ("timed_out",)

while True:
    try:
        os.fork()
    except OSError:
        pass
