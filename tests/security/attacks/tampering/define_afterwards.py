"""Tries: be right only if nobody calls it.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    raise NotImplementedError
```"""
