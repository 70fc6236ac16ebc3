"""Tries: spin past its processor time.

Must: be stopped at its processor time.
"""

LIMITS = {"cpu_s": 0.3}
ENDINGS = ("timed_out",)

while True:
    pass
