"""Tries: read a key of the user.

Must: be refused: an error, and nothing done.
"""

import os

open(os.path.expanduser("~root/.ssh/id_rsa")).read()
