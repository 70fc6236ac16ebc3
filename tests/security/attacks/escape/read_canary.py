"""Tries: read a file of the host by its full path.

Must: be refused: an error, and nothing done.
"""

import json

given = json.load(open("given.json"))
open(given["canary"]).read()
