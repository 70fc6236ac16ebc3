"""Tries: give a key twice, right and wrong.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = '{"score": 987.25, "score": 987.5}'
