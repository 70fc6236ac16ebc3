"""Tries: be read as a number of 100,000 digits.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = (*USUAL_DOMAINS, "rg:countdown")
REPLY = "9" * 100_000
