"""Tries: be text that UTF-8 cannot write.

Must: score nothing.
"""

DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")
REPLY = "\x00\ud800 \udfff"
