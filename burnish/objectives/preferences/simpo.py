"""SimPO: DPO on means a token, without a reference, beyond a margin.

https://arxiv.org/abs/2405.14734, eq. 6. `gamma` is subtracted after the scaling by `beta`, as there.
Aggregation: `pair_mean`.
"""

from dataclasses import dataclass

from torch.nn.functional import logsigmoid

from burnish.objectives import Loss, Streams, pairs, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.preferences import Labels

AGGREGATION: Kind = "pair_mean"
NEEDS_REFERENCE = False
LABELS: Labels = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Of the ranges that the paper searched."""

    beta: float = 2.0
    gamma: float = 0.5

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, beta=ranges.ABOVE_0, gamma=ranges.AT_LEAST_0)


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood of the labels given the margin, summed over pairs."""
    rewards = pairs.scaled(pairs.per_token(pairs.logprobs(s), pairs.lengths(s)), config.beta)
    return pairs.total(-logsigmoid(pairs.margin(rewards) - config.gamma), rewards)
