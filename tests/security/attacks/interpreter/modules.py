"""Tries: look for the expected values in modules.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
import sys
def NAME(*a):
    for m in list(sys.modules.values()):
        if hasattr(m, 'expected'):
            return m.expected[0]
    raise LookupError
```"""
