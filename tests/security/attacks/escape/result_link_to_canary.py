"""Tries: give a link to a secret of the host as its result.

Must: be refused by the reader, at once.
"""

import json
import os

READS = "out.txt"

os.symlink(json.load(open("given.json"))["canary"], "out.txt")
