"""DAPO: GRPO with more room upwards, and every token counts alike.

https://arxiv.org/abs/2503.14476, eq. 8 to 10 and 12. The paper's other two parts live elsewhere: the refill of
groups without signal (eq. 11) in the rollout, the overlong penalty (eq. 13) in `overlong`. No KL term.
Aggregation: `token_mean`, over the whole batch as in the authors' code (eq. 12 has one group).
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Published defaults."""

    clip_low: float = 0.2
    clip_high: float = 0.28


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=True)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.required(s.old_logprobs_T, "old_logprobs_T"))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high)
