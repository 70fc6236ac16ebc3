"""Tries: give the answer in a list with another.

Must: score nothing.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number", "choice", "exact")
REPLY = "GOLD, OTHER"
