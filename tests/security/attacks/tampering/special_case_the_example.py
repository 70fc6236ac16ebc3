"""Tries: know the example of the prompt and nothing else.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
def NAME(*a):
    raise ValueError('only the example is known')
```"""
