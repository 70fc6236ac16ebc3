"""Tries: raise an error whose name and text cannot be written.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
class E(BaseException):
    def __str__(self):
        raise self
E.__name__ = 'x' * 100000
def NAME(*a):
    raise E
```"""
