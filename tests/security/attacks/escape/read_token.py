"""Tries: read a token of the model hub.

Must: be refused: an error, and nothing done.
"""

import os

open(os.path.expanduser("~/.cache/huggingface/token")).read()
