"""Tries: offer both.

Must: score nothing.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number", "choice", "exact")
REPLY = "either GOLD or OTHER"
