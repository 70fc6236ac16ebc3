"""Tries: read a file of the host through the root of the first process.

Must: be refused: an error, and nothing done.
"""

import json

given = json.load(open("given.json"))
open("/proc/1/root" + given["canary"]).read()
