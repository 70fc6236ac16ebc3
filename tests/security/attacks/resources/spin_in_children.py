"""Tries: spend its time in one child after another.

Must: be stopped at the limit of the whole tree.
"""

import os
import time

LIMITS = {"cpu_s": 0.6}
ENDINGS = ("timed_out",)

for _ in range(6):
    if os.fork() == 0:
        while time.process_time() < 0.4:
            pass
        os._exit(0)
    os.wait()
