"""Tries: ignore the signal that says its time is up.

Must: be stopped all the same.
"""

import signal

LIMITS = {"cpu_s": 0.3}
ENDINGS = ("timed_out", "killed")

for number in range(1, 64):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
