"""Tries: write answers under ids found in frames, before the calls.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = """```python
import json, os, sys
def ids():
    f, found = sys._getframe(1), []
    while f:
        w = f.f_locals.get('work')
        found += [c[0] for c in w['calls']] if isinstance(w, dict) and 'calls' in w else []
        f = f.f_back
    return found
for i in ids():
    os.write(int(os.environ.get('BURNISH_ANSWER_FD', 1)), (json.dumps({'id': i, 'value': True}) + '\\n').encode())
def NAME(*a):
    return True
```"""
