"""Tries: return a number that takes long to read.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    return 10 ** 4200
```"""
