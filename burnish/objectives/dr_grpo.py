"""Dr. GRPO: GRPO without its two biases.

Understanding R1-Zero-Like Training, https://arxiv.org/abs/2503.20783, section 3.2: no division by the spread
(which favours questions that are nearly solved or nearly hopeless), and none by a reply's own length
(which favours long wrong replies) but by a constant.
Aggregation: `sum_over_max_length`.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "sum_over_max_length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Published defaults."""

    clip_low: float = 0.2
    clip_high: float = 0.2


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """The reward above the group's mean."""
    return ops.center(rewards_G, divide_by_std=False)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.required(s.old_logprobs_T, "old_logprobs_T"))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high)
