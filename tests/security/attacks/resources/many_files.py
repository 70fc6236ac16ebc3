"""Tries: make more files than its disk may hold.

Must: be refused: an error, and nothing done.
"""

for number in range(5000):
    open(f"/tmp/{number}", "w").close()
