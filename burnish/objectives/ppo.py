"""PPO: clipped surrogate on advantages of a learned value function.

https://arxiv.org/abs/1707.06347, eq. 7; advantages come from `gae.estimate`. The value error of eq. 9 is the
separate term `value_loss`, because it has another model's outputs and no log-probabilities. `value_clip` is of
the paper's code (github.com/openai/baselines, ppo2): the larger of the errors of the value and of the value held
within `value_clip` of what it was when the replies were sampled. It is off; TRL has 0.2, verl 0.5, and both halve the
error (`value_coefficient=0.5`). `dual_clip` bounds the loss of bad tokens, https://arxiv.org/abs/1912.09729, eq. 5.
The entropy bonus of eq. 9 is `entropy.bonus`, an option of stage `rl` for every objective.
Aggregation: `token_mean`.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Published defaults (section 6.1; table 5 for the coefficient)."""

    clip: float = 0.2
    value_coefficient: float = 1.0
    value_clip: float = math.inf
    dual_clip: float = math.inf

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, clip=ranges.CLIP_LOW, dual_clip=ranges.ABOVE_1)
        ranges.check(self, value_coefficient=ranges.ABOVE_0, value_clip=ranges.ABOVE_0)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.behaviour_logprobs(s, of_sampler=False))
    return ops.clipped_surrogate(s, ratio_T, config.clip, config.clip, config.dual_clip)


def value_loss(
    values_T: Tensor, returns_T: Tensor, weights_T: Tensor, config: Config, old_values_T: Tensor | None = None
) -> Loss:
    """Squared error of the values, summed over tokens; `old_values_T` are read where errors are clipped."""
    errors_T = (values_T - returns_T.detach()).square()
    if old_values_T is not None:
        held_T = old_values_T + (values_T - old_values_T).clamp(-config.value_clip, config.value_clip)
        errors_T = torch.maximum(errors_T, (held_T - returns_T.detach()).square())
    error = (errors_T * weights_T).sum()
    return Loss(total=config.value_coefficient * error, metrics={"value_error": error.detach()})
