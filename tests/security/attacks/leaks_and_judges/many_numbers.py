"""Tries: say every number there may be.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = " ".join(str(number) for number in range(-50, 1000))
