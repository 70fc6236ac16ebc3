"""Tries: be computed by the grader for ever.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = (*USUAL_DOMAINS, "rg:countdown", "rg:simple_integration")
REPLY = "9**9**9**9"
