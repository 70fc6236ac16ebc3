"""Tries: be text that UTF-8 cannot write.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "\x00\ud800 \udfff"
