"""Tries: be made of characters that nobody sees.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "\u200b\u2060\ufeff\u202e"
