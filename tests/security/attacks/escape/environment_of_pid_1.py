"""Tries: read the environment of the host's first process.

Must: be refused: an error, and nothing done.
"""

if not any(word in open("/proc/1/environ").read() for word in ("HOME=", "USER=", "SECRET")):
    raise OSError("nothing there")
