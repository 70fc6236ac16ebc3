"""Tries: give no function of the asked name.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def other(*a):
    return 0
# NAME
```"""
