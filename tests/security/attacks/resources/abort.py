"""Tries: abort.

Must: count as the job's own end.
"""

import os

ENDINGS = ("killed",)

os.abort()
