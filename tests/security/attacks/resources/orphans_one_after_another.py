"""Tries: start children whose parents are gone, more than it may have at once.

Must: meet its limit, and cost nobody else.
"""

import os
import signal

for _ in range(1000):
    if os.fork() == 0:
        try:
            if os.fork() == 0:
                signal.pause()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.wait()[1]:
        raise OSError("enough")
