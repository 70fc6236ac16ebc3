"""Tries: take the inputs that are still to come.

Must: score no more than its plain value does.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import sys
sys.stdin.read()
sys.stdin.close()
""",
)
HONEST = returning("None")
