"""Tries: kill every process that it can.

Must: reach no process but its own.
"""

import os

ENDINGS = ("exited", "killed")

os.kill(-1, 9)
raise OSError("nobody else was there")
