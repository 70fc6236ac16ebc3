"""Tries: end the first process, on which all others depend, with each signal.

Must: not be heard.
"""

import os
import time

for number in (*range(1, 32), *range(34, 65)):
    try:
        os.kill(1, number)
    except PermissionError:
        continue
time.sleep(0.2)
os.kill(os.getpid(), 0)
if open("/proc/self/stat").read():
    raise OSError("it lives, and so do we")
