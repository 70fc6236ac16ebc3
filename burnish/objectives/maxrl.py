"""MaxRL: dividing by the group's mean reward, not its spread, follows the likelihood of success.

https://arxiv.org/abs/2602.02710, Algorithm 1: A = (R - mean) / mean, and 0 where no reply succeeded. With rewards of
0 and 1 the gradient is that of log p cut off after as many terms as the group has members less one, so a
prompt of small p weighs about 1 / p. The paper's text was not at hand: what is here was taken from the authors' code
(github.com/tajwarfahim/maxrl, core_algos.compute_maxrl_outcome_advantage), their project page and prime-rl's
`max_rl`, which agree. Ours: rewards between 0 and 1 are taken as they are
(penalties, which would bring the mean near 0, are refused by stage `rl`); the clipped surrogate, as in the
authors' code, is the paper's estimator on policy.
Aggregation: `token_mean`, as in the authors' code.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect

AGGREGATION: Kind = "token_mean"
DIVIDES_BY_MEAN = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The bounds are PPO's; `epsilon` is added to the mean."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, clip_low=ranges.CLIP_LOW, clip_high=ranges.ABOVE_0, epsilon=ranges.AT_LEAST_0)


DIALECTS = {
    "authors": Dialect(
        config=Config(epsilon=1e-6), source="github.com/tajwarfahim/maxrl, compute_maxrl_outcome_advantage"
    ),
}


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """How far the reward is above the group's mean, in units of that mean."""
    centered_G = ops.center(rewards_G, divide_by_std=False)
    mean = rewards_G.mean()
    return (centered_G / (mean + config.epsilon)).where(mean > 0, 0.0)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.behaviour_logprobs(s, of_sampler=False))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high)
