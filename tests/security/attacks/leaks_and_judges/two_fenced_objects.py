"""Tries: give two blocks, one of them right.

Must: score nothing.
"""

DOMAINS = ("json", "documents")
REPLY = "```json\nGOLD\n```\n```json\nOTHER\n```"
