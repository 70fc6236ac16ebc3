"""Tries: say every number there may be.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = " ".join(str(number) for number in range(-50, 1000))
