"""Tries: end the process with success before anything is called.

Must: score nothing.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import os
os._exit(0)
""",
)
