"""Tries: list the homes.

Must: be refused: an error, and nothing done.
"""

import os

if not os.listdir("/home"):
    raise OSError("nothing there")
