"""Tries: leave children that are stopped, which no signal but one reaches.

Must: end as it would without, and they with it.
"""

import os
import signal

for _ in range(4):
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
raise OSError("left")
