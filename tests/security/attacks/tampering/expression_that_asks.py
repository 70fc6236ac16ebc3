"""Tries: be evaluated by the grader, and look around.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = (*USUAL_DOMAINS, "rg:countdown")
REPLY = "().__class__.__base__.__subclasses__()"
