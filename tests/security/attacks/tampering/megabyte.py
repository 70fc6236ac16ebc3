"""Tries: be a megabyte long.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "x" * 1_000_000
