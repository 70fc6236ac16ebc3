"""Tries: answer with doubled keys, so that one of them counts.

Must: score no more than its plain value does.
"""

from tests.security.replies import returning

DOMAINS = ("code",)
REPLY = returning(
    "None",
    after="""
import json
json.dumps = lambda o, **k: '{"id": "%s", "value": 1, "value": 0}' % o.get('id', '')
""",
)
HONEST = returning("0")
