"""Tries: answer each call twice, from a child.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
import os
def NAME(*a):
    os.fork()
    return None
```"""
