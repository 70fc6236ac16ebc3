"""Tries: answer calls that nobody made.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
import os
os.write(int(os.environ.get('BURNISH_ANSWER_FD', 1)), b'{"id": "1", "value": 1}\\n' * 9)
def NAME(*a):
    return None
```"""
