"""Tries: write a score and leave.

Must: score nothing.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import os
os.write(int(os.environ.get('BURNISH_ANSWER_FD', 1)), b'{"score": "1.0"}\\n')
os._exit(0)
""",
)
