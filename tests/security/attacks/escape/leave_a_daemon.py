"""Tries: outlive its job in a session of its own, holding the output.

Must: end together with its job, which then returns.
"""

import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(30)
    os._exit(0)
raise OSError("what it left must end with it")
