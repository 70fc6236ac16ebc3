"""Tries: leave a file in the root.

Must: be refused: an error, and nothing done.
"""

open("/evil", "w").write("x")
