"""Tries: be evaluated by the grader, and look around.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json", "rg:countdown")
REPLY = "().__class__.__base__.__subclasses__()"
