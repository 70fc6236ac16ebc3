"""Tries: give numbers that JSON has not.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = '{"total": NaN, "score": Infinity}'
