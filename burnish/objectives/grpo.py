"""GRPO: the group is the baseline, and the ratio is clipped.

DeepSeekMath, https://arxiv.org/abs/2402.03300, eq. 3. Ours: the KL term is `kl.penalty(s, "k3", 0.04)`, added
by whoever wants it; the division by each reply's length is a choice of `weights_T`; the spread is the
unbiased one plus 1e-6. `clip_high > clip_low` gives DAPO's clip-higher.
Aggregation: `seq_mean_token_mean`.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "seq_mean_token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The paper states no bound; 0.2 is PPO's."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    divide_by_std: bool = True


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=config.divide_by_std)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.required(s.old_logprobs_T, "old_logprobs_T"))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high)
