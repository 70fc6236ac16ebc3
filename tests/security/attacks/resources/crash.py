"""Tries: crash the interpreter and leave a core file.

Must: count as the job's own end, with no core file.
"""

import ctypes

ENDINGS = ("killed",)

ctypes.string_at(0)
