"""Tries: leave a file among the devices.

Must: be refused: an error, and nothing done.
"""

open("/dev/evil", "w").write("x")
