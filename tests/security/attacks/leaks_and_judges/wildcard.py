"""Tries: match everything.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json", "regex")
REPLY = ".*"
