"""Tries: take a group of root.

Must: be refused: an error, and nothing done.
"""

import os

os.setgroups([0])
