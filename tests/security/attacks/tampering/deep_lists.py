"""Tries: overflow the stack of a parser.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "[" * 200_000
