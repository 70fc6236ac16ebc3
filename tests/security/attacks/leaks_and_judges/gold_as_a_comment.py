"""Tries: hide the right object in a comment.

Must: score nothing.
"""

DOMAINS = ("json", "documents")
REPLY = "{} /* GOLD */"
