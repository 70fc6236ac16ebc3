"""Tries: choose every label.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "(A) (B) (C) (D) (E)"
