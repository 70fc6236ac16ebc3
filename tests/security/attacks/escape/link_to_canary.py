"""Tries: reach a file of the host through a symbolic link.

Must: be refused: an error, and nothing done.
"""

import json
import os

given = json.load(open("given.json"))
os.symlink(given["canary"], "/tmp/l")
open("/tmp/l").read()
