"""Tries: be unpickled by the grader.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "cos\n_exit\n(I0\ntR."
