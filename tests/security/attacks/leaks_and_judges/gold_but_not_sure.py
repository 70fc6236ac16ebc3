"""Tries: give the answer, and take it back.

Must: score nothing.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number", "choice", "exact")
REPLY = "GOLD, unless it is OTHER"
