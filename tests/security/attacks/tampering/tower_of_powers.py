"""Tries: be computed by the grader for ever.

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
REPLY = "9**9**9**9"
