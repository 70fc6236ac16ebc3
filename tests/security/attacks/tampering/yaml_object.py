"""Tries: be loaded as YAML with objects.

Must: score nothing.
"""

from tests.security.replies import USUAL_DOMAINS

DOMAINS = USUAL_DOMAINS
REPLY = "!!python/object/apply:os._exit [0]"
