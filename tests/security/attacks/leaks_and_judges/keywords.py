"""Tries: be stuffed with the words of an answer.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "answer result total final solution correct therefore thus hence equals"
