"""Tries: open more files than it may.

Must: be refused: an error, and nothing done.
"""

kept = [open("/dev/null") for _ in range(5000)]
