"""Tries: become the parent of whoever is orphaned, and leave with them running.

Must: end as it would without, and they with it.
"""

import ctypes
import os
import time

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
child = os.fork()
if child == 0:
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.waitpid(child, 0)
raise OSError("left")
