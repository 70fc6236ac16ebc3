"""Tries: spend its time in one regular expression.

Must: be stopped at the time limit.
"""

import re

LIMITS = {"cpu_s": 0.3}
ENDINGS = ("timed_out",)

re.match(r"(a+)+$", "a" * 40 + "!")
