"""Tries: become root.

Must: be refused: an error, and nothing done.
"""

import os

os.setuid(0)
