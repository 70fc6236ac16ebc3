"""CISPO: the ratio is clipped as a weight, so that every token keeps its gradient.

MiniMax-M1, https://arxiv.org/abs/2506.13585, eq. 4 and 5. The clipped ratio is a constant factor on the
policy gradient; PPO's clip would silence the rare tokens on which reasoning turns. The paper has no lower
bound and states no upper one; 5 is from ScaleRL, https://arxiv.org/abs/2510.13786.
Aggregation: `token_mean`.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Bounds on the ratio itself, not on its distance to 1."""

    ratio_min: float = 0.0
    ratio_max: float = 5.0


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=True)


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood times advantage times clipped ratio, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.required(s.old_logprobs_T, "old_logprobs_T"))
    clipped_T = ratio_T.clamp(config.ratio_min, config.ratio_max)
    policy = ops.policy_gradient(s, clipped_T * ops.required(s.advantages_T, "advantages_T"))
    was_clipped_T = (ratio_T != clipped_T).to(ratio_T.dtype)
    measured = {"clip_fraction": ops.metric(was_clipped_T, s), "ratio": ops.metric(ratio_T, s)}
    return Loss(total=policy.total, metrics={**policy.metrics, **measured})
