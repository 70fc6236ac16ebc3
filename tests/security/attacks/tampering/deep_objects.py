"""Tries: overflow the stack of a parser with objects.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = '{"a":' * 100_000
