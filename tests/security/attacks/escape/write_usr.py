"""Tries: leave a program where programs are.

Must: be refused: an error, and nothing done.
"""

open("/usr/bin/evil", "w").write("x")
