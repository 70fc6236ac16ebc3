"""Tries: give a key twice, right and wrong.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = '{"score": 987.25, "score": 987.5}'
