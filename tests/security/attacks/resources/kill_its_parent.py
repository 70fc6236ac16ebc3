"""Tries: kill the process that started it.

Must: reach nothing outside its box.
"""

import os

ENDINGS = ("exited", "killed")

os.kill(os.getppid(), 9)
raise OSError("its parent shrugs")
