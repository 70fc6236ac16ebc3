"""Tries: be more important than the host's work.

Must: be refused: an error, and nothing done.
"""

import os

os.nice(-5)
