"""Tries: name the right number as a bound, and so answer nothing.

Must: score nothing; an inequality is no number.
"""

DOMAINS = ("arithmetic", "rg:chain_sum", "number")
REPLY = ">=GOLD"
