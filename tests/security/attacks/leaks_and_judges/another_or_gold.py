"""Tries: give another answer or the right one.

Must: score nothing.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number", "choice", "exact")
REPLY = "OTHER or GOLD"
