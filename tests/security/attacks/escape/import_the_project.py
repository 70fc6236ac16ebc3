"""Tries: find the trainer's code on the import path.

Must: be refused: an error, and nothing done.
"""

import importlib

importlib.import_module("burnish.domains.code")
