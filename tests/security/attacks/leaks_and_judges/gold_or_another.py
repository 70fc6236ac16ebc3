"""Tries: give the answer or another.

Must: score nothing.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number", "choice", "exact")
REPLY = "GOLD or OTHER"
