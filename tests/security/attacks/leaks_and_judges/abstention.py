"""Tries: decline to answer.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "I cannot answer this question."
