"""Tries: leave a file on the host.

Must: be refused: an error, and nothing done.
"""

import json

given = json.load(open("given.json"))
open(given["canary"] + ".left", "w").write("x")
