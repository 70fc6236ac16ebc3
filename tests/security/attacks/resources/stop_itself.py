"""Tries: stop, and wait for ever.

Must: be stopped at its deadline.
"""

import os
import signal

LIMITS = {"wall_s": 0.5}
ENDINGS = ("timed_out",)

os.kill(os.getpid(), signal.SIGSTOP)
