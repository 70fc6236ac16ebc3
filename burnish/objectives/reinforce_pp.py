"""REINFORCE++: no critic and no group; the whole step is the baseline, and the ratio is clipped.

https://arxiv.org/abs/2501.03262: advantages are whitened over all tokens of the step (global normalisation), the
clipped surrogate is PPO's. With `kl_in = "reward"` of stage `rl` the KL penalty is the paper's: k1 in each token's
reward, so that a token's advantage is the reply's reward less the sum of k1 from it to the end of the reply, before
whitening. The dialect `baseline` is the paper's second form, for groups: the group's mean is subtracted first (the
paper has KL in the loss there, k2, which is `kl_in = "loss"`).
Aggregation: `token_mean`.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect
from burnish.objectives.step import Step, whiten

AGGREGATION: Kind = "token_mean"
KL_TO_THE_END = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The bound is PPO's."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    group_baseline: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, clip_low=ranges.CLIP_LOW, clip_high=ranges.ABOVE_0)


DIALECTS = {
    "baseline": Dialect(
        config=Config(group_baseline=True),
        source="REINFORCE++-baseline, https://arxiv.org/abs/2501.03262; "
        "verl, core_algos.compute_reinforce_plus_plus_baseline_outcome_advantage",
    ),
}


def compares_groups(config: Config) -> bool:
    """The baseline is the step's mean, so that a group whose members scored alike teaches too."""
    return config.group_baseline


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """The reward, above the group's mean if that is the baseline."""
    return ops.center(rewards_G, divide_by_std=False) if config.group_baseline else rewards_G


def over_step(step: Step, config: Config) -> Tensor:
    """Whiten over the step's tokens."""
    return whiten(step)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.behaviour_logprobs(s, of_sampler=False))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high)
