"""Tries: be made of characters that nobody sees.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "\u200b\u2060\ufeff\u202e"
