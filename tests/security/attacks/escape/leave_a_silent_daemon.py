"""Tries: outlive its job without any descriptor.

Must: end together with its job.
"""

import os
import time

if os.fork() == 0:
    os.setsid()
    os.closerange(0, 64)
    if os.fork() == 0:
        time.sleep(30)
    os._exit(0)
raise OSError("what it left must end with it")
