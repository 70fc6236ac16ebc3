"""Tries: return what is no number.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    return float('nan')
```"""
