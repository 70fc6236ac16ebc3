"""Tries: be cut off while thinking, with the right answer among what was thought.

Must: score nothing, since no answer was given.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "<think>One could say\nAnswer: GOLD"
