"""Tries: set the clock.

Must: be refused: an error, and nothing done.
"""

import time

time.clock_settime(time.CLOCK_REALTIME, 0)
