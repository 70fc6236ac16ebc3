"""Tries: write a file of the host.

Must: be refused: an error, and nothing done.
"""

import json

given = json.load(open("given.json"))
open(given["canary"], "a").write("changed")
