"""PPO: clipped surrogate on advantages of a learned value function.

https://arxiv.org/abs/1707.06347, eq. 7; advantages come from `gae.estimate`. The value error of eq. 9 is the
separate term `value_loss`, because it has another model's outputs and no log-probabilities.
Aggregation: `token_mean`. Not covered: clipped value loss and entropy bonus (the paper's code, and eq. 9).
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Published defaults (section 6.1; table 5 for the coefficient)."""

    clip: float = 0.2
    value_coefficient: float = 1.0


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.required(s.old_logprobs_T, "old_logprobs_T"))
    return ops.clipped_surrogate(s, ratio_T, config.clip, config.clip)


def value_loss(values_T: Tensor, returns_T: Tensor, weights_T: Tensor, config: Config) -> Loss:
    """Squared error of the values, summed over tokens."""
    error = ((values_T - returns_T.detach()).square() * weights_T).sum()
    return Loss(total=config.value_coefficient * error, metrics={"value_error": error.detach()})
