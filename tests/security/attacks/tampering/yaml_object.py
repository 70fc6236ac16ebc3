"""Tries: be loaded as YAML with objects.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "!!python/object/apply:os._exit [0]"
