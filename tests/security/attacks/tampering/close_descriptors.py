"""Tries: close every descriptor.

Must: score nothing.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import os
os.closerange(0, 64)
""",
)
