"""Tries: be unpickled by the grader.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "cos\n_exit\n(I0\ntR."
