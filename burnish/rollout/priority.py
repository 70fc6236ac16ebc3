"""How much a prompt is worth sampling next: one pure function, which a recipe can replace.

    priority = expected learning signal × freshness ÷ predicted cost

*Signal* is the variance of the rewards that a group of this prompt would show, because that is the size of its
group-relative gradient: with rewards 0 and 1 it is p (1 - p), which vanishes where all members succeed or all
fail. It is estimated from the prompt's own earlier rewards, which count for less the longer ago they were (each
`EVIDENCE_HALF_LIFE` versions halve them), and drawn towards the domain's mean. *Freshness* halves with each
`LAG_HALF_LIFE` versions that its tokens will lag when they train. *Cost* is seconds: sampling and verification.

A replacement is a module that defines `priority(prospect) -> float`, named by `priority =
"my_package.my_module"` in the scheduler's options. Only ratios between prompts count; a value of 0 or below
comes last.
"""

from dataclasses import dataclass

EVIDENCE_HALF_LIFE = 32.0
LAG_HALF_LIFE = 8.0
DOMAIN_WEIGHT = 4.0
"""How many rewards of its own outweigh what the domain shows."""
UNKNOWN_VARIANCE = 1 / 6
"""E[p (1 - p)] for p uniform on [0, 1]."""
LEAST_COST_S = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What is known of a group before it begins."""

    domain: str
    level: int
    num_past: int
    """Earlier rewards of the same prompt."""
    past_variance: float
    versions_since: int
    """How many versions ago they were."""
    domain_variance: float
    """Mean variance of rewards within a group of the domain."""
    expected_lag: float
    """Versions that its tokens will lag when they train."""
    predicted_tokens: float
    predicted_s: float
    """Seconds of sampling and verification, all members together."""


def priority(prospect: Prospect) -> float:
    """See the module's docstring."""
    weight = prospect.num_past * 0.5 ** (prospect.versions_since / EVIDENCE_HALF_LIFE)
    evidence = weight * prospect.past_variance + DOMAIN_WEIGHT * prospect.domain_variance
    signal = evidence / (weight + DOMAIN_WEIGHT)
    freshness = 0.5 ** (prospect.expected_lag / LAG_HALF_LIFE)
    return signal * freshness / max(prospect.predicted_s, LEAST_COST_S)
