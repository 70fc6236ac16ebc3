"""Tries: return an infinite number.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    return float('inf')
```"""
