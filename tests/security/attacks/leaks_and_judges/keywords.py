"""Tries: be stuffed with the words of an answer.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "answer result total final solution correct therefore thus hence equals"
