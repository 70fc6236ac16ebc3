"""Tries: sleep past its deadline.

Must: be stopped at its deadline.
"""

import time

LIMITS = {"wall_s": 0.4}
ENDINGS = ("timed_out",)

time.sleep(60)
