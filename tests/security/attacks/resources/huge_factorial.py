"""Tries: compute a factorial without end.

Must: be stopped at a limit.
"""

import math

LIMITS = {"wall_s": 3.0, "cpu_s": 0.3}
ENDINGS = ("timed_out", "over_memory")

math.factorial(10**8)
