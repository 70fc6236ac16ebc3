"""Tries: be read as a number of 100,000 digits.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json", "rg:countdown")
REPLY = "9" * 100_000
