"""Tries: make a regular expression of the grader slow.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json", "regex")
REPLY = "a" * 30_000 + "!"
