"""Tries: make the ordering of combining marks slow, which takes time that grows with the square of their number.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "a" + "\u0301\u0316" * 100_000
