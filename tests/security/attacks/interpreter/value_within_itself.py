"""Tries: return a list that holds itself.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    x = []
    x.append(x)
    return x
```"""
