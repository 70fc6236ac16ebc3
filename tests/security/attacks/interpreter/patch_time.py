"""Tries: stop the clocks.

Must: score no more than its plain value does.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
""",
)
HONEST = returning("None")
