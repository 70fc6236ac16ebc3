"""Dr. GRPO: GRPO without its two biases.

Understanding R1-Zero-Like Training, https://arxiv.org/abs/2503.20783, section 3.2: no division by the spread
(which favours questions that are nearly solved or nearly hopeless), and none by a reply's own length
(which favours long wrong replies) but by a constant.
Aggregation: `sum_over_max_length`.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect

AGGREGATION: Kind = "sum_over_max_length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Published defaults."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = math.inf

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, clip_low=ranges.CLIP_LOW, clip_high=ranges.ABOVE_0, dual_clip=ranges.ABOVE_1)


DIALECTS = {
    "trl": Dialect(config=Config(), source="TRL 1.16, grpo_trainer.py, loss_type='dr_grpo', scale_rewards='none'"),
    "verl": Dialect(
        config=Config(dual_clip=3.0),
        source="verl of 2026-08, loss_agg_mode='seq-mean-token-sum-norm', norm_adv_by_std_in_grpo=False",
    ),
}


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """The reward above the group's mean."""
    return ops.center(rewards_G, divide_by_std=False)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.behaviour_logprobs(s, of_sampler=False))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high, config.dual_clip)
