"""ORPO: learn the preferred reply, and make its odds higher than the other's, in one go.

https://arxiv.org/abs/2403.07691, eq. 6 and 7: cross entropy of the preferred reply plus `odds_weight` times the
odds-ratio term. Probabilities of replies are geometric means a token. Ours: the cross entropy is the mean of each
preferred reply, then of replies, and prompts do not train; TRL takes the mean over all tokens of the batch.
Aggregation: `pair_mean`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from burnish.objectives import Loss, Streams, pairs, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.pairs import Pair
from burnish.objectives.preferences import Labels

AGGREGATION: Kind = "pair_mean"
NEEDS_REFERENCE = False
LABELS: Labels = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The paper's weight of the odds-ratio term (its lambda)."""

    odds_weight: float = 0.1

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, odds_weight=ranges.ABOVE_0)


def odds_ratio_term(mean_logprobs: Pair) -> Tensor:
    """The odds of the preferred reply against the odds of the other, from means a token."""
    return -logsigmoid(_log_odds(mean_logprobs.chosen_B) - _log_odds(mean_logprobs.rejected_B))


def loss(s: Streams, config: Config) -> Loss:
    """Cross entropy and odds-ratio term, summed over pairs."""
    means = pairs.per_token(pairs.logprobs(s), pairs.lengths(s))
    return pairs.total(config.odds_weight * odds_ratio_term(means) - means.chosen_B, means)


def _log_odds(logprobs_B: Tensor) -> Tensor:
    """Log of p / (1 - p), from log p; exact also where p is near 1, and held where it has been rounded to 1."""
    held_B = logprobs_B.clamp(max=-torch.finfo(logprobs_B.dtype).eps)
    return held_B - torch.log(-torch.expm1(held_B))
