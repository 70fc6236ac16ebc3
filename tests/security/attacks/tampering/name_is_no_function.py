"""Tries: bind the name to what is no function.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
NAME = 1
```"""
