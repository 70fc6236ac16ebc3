"""Tries: close its streams and hang.

Must: be stopped at its deadline.
"""

import os
import time

LIMITS = {"wall_s": 0.5}
ENDINGS = ("timed_out",)

os.closerange(0, 64)
time.sleep(60)
