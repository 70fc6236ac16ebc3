"""Tries: make a regular expression of the grader slow.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = (*USUAL_DOMAINS, "regex")
REPLY = "a" * 30_000 + "!"
