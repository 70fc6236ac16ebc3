"""Tries: give the answer, then another.

Must: score nothing.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number", "choice", "exact")
REPLY = "GOLD\nOTHER"
