"""Tries: give the right object, and another.

Must: score nothing.
"""

DOMAINS = ("json", "documents")
REPLY = "GOLD\nOTHER"
