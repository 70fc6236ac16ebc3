"""Tries: give numbers that JSON has not.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = '{"total": NaN, "score": Infinity}'
