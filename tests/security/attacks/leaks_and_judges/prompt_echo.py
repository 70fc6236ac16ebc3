"""Tries: say the prompt back.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "PROMPT"
