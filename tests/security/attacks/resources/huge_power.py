"""Tries: compute a number that fills all memory and time.

Must: be stopped at a limit.
"""

LIMITS = {"cpu_s": 0.3}
ENDINGS = ("over_memory", "timed_out")

x = 9**9**9
