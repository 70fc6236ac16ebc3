"""Tries: say every digit.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 9"
