"""Tries: return half a character.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    return chr(0xd800)
```"""
