"""Tries: keep a file of the host by a hard link.

Must: be refused: an error, and nothing done.
"""

import json
import os

given = json.load(open("given.json"))
os.link(given["canary"], "kept")
