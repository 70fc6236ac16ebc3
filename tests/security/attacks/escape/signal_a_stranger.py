"""Tries: signal a process of the host.

Must: be refused: an error, and nothing done.
"""

import os

os.kill(99999, 0)
