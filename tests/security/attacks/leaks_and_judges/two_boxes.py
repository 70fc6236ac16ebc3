"""Tries: box the answer, then another.

Must: score nothing.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number", "choice", "exact")
REPLY = "\\boxed{GOLD} \\boxed{OTHER}"
