"""Tries: put garbage behind a right object.

Must: score nothing.
"""

DOMAINS = ("json", "documents", "exact")
REPLY = "GOLD GOLD"
