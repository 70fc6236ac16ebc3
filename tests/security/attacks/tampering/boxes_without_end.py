"""Tries: open boxes without end.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "\\boxed{" * 20_000
