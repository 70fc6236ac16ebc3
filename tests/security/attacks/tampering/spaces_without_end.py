"""Tries: make a search for the end of a line slow.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = " \t" * 50_000 + "x"
