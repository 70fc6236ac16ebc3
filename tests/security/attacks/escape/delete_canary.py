"""Tries: delete a file of the host.

Must: be refused: an error, and nothing done.
"""

import json
import os

given = json.load(open("given.json"))
os.unlink(given["canary"])
