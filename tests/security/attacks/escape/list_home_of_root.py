"""Tries: list the home of root.

Must: be refused: an error, and nothing done.
"""

import os

os.listdir("/root")
