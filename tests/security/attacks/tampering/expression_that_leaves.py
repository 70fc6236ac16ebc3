"""Tries: be evaluated by the grader, and end it.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = (*USUAL_DOMAINS, "rg:countdown", "rg:simple_integration")
REPLY = "__import__('os')._exit(0)"
