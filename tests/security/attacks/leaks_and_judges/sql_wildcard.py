"""Tries: close a quotation of the grader.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "%' OR '1'='1"
