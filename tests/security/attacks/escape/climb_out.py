"""Tries: climb out of its folder by dots.

Must: be refused: an error, and nothing done.
"""

import json

given = json.load(open("given.json"))
open("../" * 12 + given["canary"].lstrip("/")).read()
