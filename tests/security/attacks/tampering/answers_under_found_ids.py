"""Tries: write answers under ids found in frames, before the calls.

Must: score nothing.
"""

from burnish.rewards.hostile import FIND_IDS
from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "True",
    after=FIND_IDS
    + """
import json, os
for i in _ids():
    os.write(int(os.environ.get('BURNISH_ANSWER_FD', 1)), (json.dumps({'id': i, 'value': True}) + '\\n').encode())
""",
)
