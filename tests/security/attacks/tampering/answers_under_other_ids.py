"""Tries: answer calls that nobody made.

Must: score nothing.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import os
os.write(int(os.environ.get('BURNISH_ANSWER_FD', 1)), b'{"id": "1", "value": 1}\\n' * 9)
""",
)
