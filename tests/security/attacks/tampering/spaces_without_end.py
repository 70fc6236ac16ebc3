"""Tries: make a search for the end of a line slow.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = " \t" * 50_000 + "x"
