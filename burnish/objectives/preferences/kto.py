"""KTO: replies need no partner; gains and losses are felt against a reference point, and losses level off.

https://arxiv.org/abs/2402.01306, eq. 7: lambda - v, with v = lambda_D sigmoid(beta (r - z0)) for desirable replies and
lambda_U sigmoid(beta (z0 - r)) for others, r the log-ratio to a reference. The constant lambda is left in. z0 is
the batch's estimate of KL(policy || reference), from prompts with replies of other prompts (`reference_point`); it
carries no gradient and is never below 0. `advantages_T` is positive on desirable replies.
Aggregation: `seq_mean_token_mean`, every reply counts alike.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.preferences import Labels

AGGREGATION: Kind = "seq_mean_token_mean"
NEEDS_REFERENCE = True
LABELS: Labels = "replies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The paper's temperature and weights; `z0` is of one update, and a stage fills it in."""

    beta: float = 0.1
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0
    z0: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, beta=ranges.ABOVE_0, z0=ranges.AT_LEAST_0)
        ranges.check(self, desirable_weight=ranges.ABOVE_0, undesirable_weight=ranges.ABOVE_0)


def reference_point(log_ratios_B: Tensor) -> float:
    """Estimate z0 from the log-ratios of mismatched prompts and replies of one update."""
    return max(float(log_ratios_B.mean()), 0.0)


def loss(s: Streams, config: Config) -> Loss:
    """How far each reply's value is below the best that it could be, at each of its tokens."""
    log_ratio_T = ops.sequence_sum(s.new_logprobs_T - ops.required(s.ref_logprobs_T, "ref_logprobs_T"), s)
    gain_T = config.beta * (log_ratio_T - config.z0)
    is_desirable_T = ops.required(s.advantages_T, "advantages_T") > 0
    felt_T = torch.where(
        is_desirable_T,
        config.desirable_weight * (1 - gain_T.sigmoid()),
        config.undesirable_weight * (1 - (-gain_T).sigmoid()),
    )
    reward_T = config.beta * log_ratio_T.detach()
    is_right_T = ((reward_T > 0) == is_desirable_T).to(reward_T.dtype)
    signed_T = torch.where(is_desirable_T, reward_T, -reward_T)
    return Loss(
        total=(felt_T * s.weights_T).sum(),
        metrics={"accuracy": ops.metric(is_right_T, s), "margin": ops.metric(signed_T, s)},
    )
