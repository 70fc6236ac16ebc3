"""Tries: hide memory behind a descriptor.

Must: be refused: an error, and nothing done.
"""

import os

os.memfd_create("m")
