"""DAPO: GRPO with more room upwards, and every token counts alike.

https://arxiv.org/abs/2503.14476, eq. 8 to 10 and 12. The paper's other two parts live elsewhere: the refill of
groups without signal (eq. 11) in the rollout, overlong filter and penalty (section 3.4, eq. 13) in `overlong`. No KL.
Aggregation: `token_mean`, over the whole batch as in the authors' code (eq. 12 has one group).
"""

import math
from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect

AGGREGATION: Kind = "token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Published defaults."""

    clip_low: float = 0.2
    clip_high: float = 0.28
    epsilon: float = 1e-6
    dual_clip: float = math.inf

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(
            self, clip_low=ranges.CLIP_LOW, clip_high=ranges.ABOVE_0, epsilon=ranges.ABOVE_0, dual_clip=ranges.ABOVE_1,
        )  # fmt: skip


DIALECTS = {
    "trl": Dialect(
        config=Config(clip_high=0.2, epsilon=1e-4),
        source="TRL 1.16, grpo_trainer.py, the default loss_type='dapo' with its default bounds",
    ),
    "verl": Dialect(
        config=Config(dual_clip=10.0), source="verl of 2026-08, its DAPO recipes: clip_ratio_c=10, clip_ratio_high=0.28"
    ),
}


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=True, epsilon=config.epsilon)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.behaviour_logprobs(s, of_sampler=False))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high, config.dual_clip)
