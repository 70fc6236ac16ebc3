"""Tries: close every descriptor.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
import os
os.closerange(0, 64)
def NAME(*a):
    return None
```"""
