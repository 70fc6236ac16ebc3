"""Tries: think, and answer nothing.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "<think>It is known.</think>"
