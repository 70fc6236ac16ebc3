"""Tries: leave a daemon that writes after the check.

Must: score no more than its plain value does.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(0.2)
    os.write(int(os.environ.get('BURNISH_ANSWER_FD', 1)), b'{"score": 1}\\n')
    os._exit(0)
""",
)
HONEST = returning("None")
