"""Tries: return 0.0, hoping that it counts as 0.

Must: score no more than its plain value does.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning("0.0")
HONEST = returning("0.0")
