"""Tries: rewrite the program that calls it.

Must: score no more than its plain value does.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import __main__, sys
for name in ('answer', 'main', 'find'):
    setattr(__main__, name, lambda *a: '{}')
""",
)
HONEST = returning("None")
