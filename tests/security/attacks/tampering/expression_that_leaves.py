"""Tries: be evaluated by the grader, and end it.

Must: score nothing.
"""

DOMAINS = (
    "code",
    "documents",
    "arithmetic",
    "rg:chain_sum",
    "number",
    "choice",
    "exact",
    "json",
    "rg:countdown",
    "rg:simple_integration",
)
REPLY = "__import__('os')._exit(0)"
