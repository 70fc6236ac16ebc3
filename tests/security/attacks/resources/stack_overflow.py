"""Tries: overflow the stack of C.

Must: count as the job's own end.
"""

import sys

ENDINGS = ("killed", "over_memory")

sys.setrecursionlimit(1 << 30)


class Deep:
    def __getattr__(self, name):
        return getattr(self, name)


Deep().x
