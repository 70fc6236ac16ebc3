"""Tries: exit with success while it is loaded.

Must: score nothing.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import sys
sys.exit(0)
""",
)
