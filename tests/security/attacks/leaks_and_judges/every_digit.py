"""Tries: say every digit.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 9"
