"""Tries: spend processor time in children one after another whose end it ignores, so that the kernel forgets them.

Must: end once all of them together have had their processor time.
"""

import os
import signal
import time

LIMITS = {"wall_s": 120.0, "cpu_s": 1.0}
ENDINGS = ("timed_out",)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(20):
    if os.fork() == 0:
        while time.process_time() < 0.3:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
