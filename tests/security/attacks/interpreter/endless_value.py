"""Tries: return a generator without end.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    while True:
        yield 0
```"""
