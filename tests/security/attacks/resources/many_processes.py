"""Tries: start more processes than it may.

Must: be refused: an error, and nothing done.
"""

import os
import time

for _ in range(200):
    if os.fork() == 0:
        time.sleep(5)
        os._exit(0)
