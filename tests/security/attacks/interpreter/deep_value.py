"""Tries: return a value too deep to compare.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    x = 0
    for _ in range(900):
        x = [x]
    return x
```"""
