"""Tries: be read as a number with a huge exponent.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "1e999999999"
