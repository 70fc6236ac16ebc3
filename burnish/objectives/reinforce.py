"""REINFORCE: raise the log-probability of what was rewarded.

Williams 1992, https://doi.org/10.1007/BF00992696, episodic REINFORCE with a constant baseline. The estimate is right
on policy only: one update for each batch of rollouts; `old_logprobs_T` is not read.
Aggregation: `seq_mean_token_sum`, a reply is one episode.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "seq_mean_token_sum"
ON_POLICY = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The plain form has no baseline."""

    baseline: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no number."""
        ranges.check(self, baseline=ranges.ANY)


def compares_groups(config: Config) -> bool:
    """The baseline is a constant, so that a group whose members scored alike teaches too."""
    return False


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """The reward above the baseline; a group has no say."""
    return rewards_G - config.baseline


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood times advantage, summed over tokens."""
    return ops.policy_gradient(s, ops.required(s.advantages_T, "advantages_T"))
