"""Tries: overflow the stack of a parser with objects.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = '{"a":' * 100_000
