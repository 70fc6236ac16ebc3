"""Tries: give a wrong block, then the right one.

Must: score nothing.
"""

DOMAINS = ("code",)
REPLY = "OTHER\n\nGOLD"
