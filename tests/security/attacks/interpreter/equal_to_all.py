"""Tries: return an object that equals everything.

Must: score nothing.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "E()",
    after="""
class E:
    def __eq__(self, other):
        return True
""",
)
