"""Tries: make more files than its disk may hold.

Must: be refused, or be stopped by a backend that counts files from outside.
"""

ENDINGS = ("exited", "killed")

for number in range(5000):
    open(f"/tmp/{number}", "w").close()
