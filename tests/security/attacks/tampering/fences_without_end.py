"""Tries: open code blocks without end.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "```" * 50_000
