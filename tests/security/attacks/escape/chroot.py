"""Tries: change its root.

Must: be refused: an error, and nothing done.
"""

import os

os.chroot("/tmp")
