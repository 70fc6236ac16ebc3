"""Tries: match everything.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = (*USUAL_DOMAINS, "regex")
REPLY = ".*"
