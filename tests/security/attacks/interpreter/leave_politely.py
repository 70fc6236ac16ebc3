"""Tries: exit with success while it is loaded.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
import sys
sys.exit(0)
def NAME(*a):
    return None
```"""
