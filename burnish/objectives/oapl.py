"""OAPL: regress the reply's log-ratio to the sampler onto its optimal advantage; no ratio, no clip.

LLMs Can Learn to Reason Via Off-Policy RL, https://arxiv.org/abs/2602.19362, eq. 3: the optimum of reward less
beta KL(policy || sampler) has beta log(policy / sampler) = R - V, with V = beta log E exp(R / beta); the
loss is the squared difference of a reply, with V estimated from its group. The sampler may lag by hundreds of
updates. The paper's text was not at hand: the equation was taken from summaries of it and from implementations
(NeMo RL's `OAPLLossFn` and `OAPLAdvantageEstimator`), which agree, also in letting the two betas differ. No
published value of either was found: 1 is ours.
Aggregation: `seq_mean_token_mean`, which counts each reply's square once.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "seq_mean_token_mean"
LINEAR_IN_ADVANTAGES = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`beta_value` estimates V, `beta_policy` scales the log-ratio; one beta in the paper's equation.

    Without `ratio_to_sampler` the log-ratio is to the proximal policy, which is another algorithm (A*-PO's second
    stage, https://arxiv.org/abs/2505.20686, if that policy is the reference).
    """

    beta_value: float = 1.0
    beta_policy: float = 1.0
    ratio_to_sampler: bool = True

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, beta_value=ranges.ABOVE_0, beta_policy=ranges.ABOVE_0)


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """The reward above the soft maximum of the group."""
    if len(rewards_G) < 2:
        raise ValueError(f"a group needs at least two rewards to be its own baseline; got {len(rewards_G)}")
    differences_G = rewards_G - rewards_G[0]
    scaled_G = differences_G / config.beta_value
    value = config.beta_value * (scaled_G.logsumexp(0) - math.log(len(rewards_G)))
    return (differences_G - value).where((differences_G != 0).any(), 0.0)


def loss(s: Streams, config: Config) -> Loss:
    """Squared residual of each reply, at each of its tokens."""
    log_ratio_T = s.new_logprobs_T - ops.behaviour_logprobs(s, of_sampler=config.ratio_to_sampler)
    sums_T = ops.sequence_sum(log_ratio_T, s)
    residual_T = config.beta_policy * sums_T - ops.required(s.advantages_T, "advantages_T")
    return Loss(
        total=(residual_T.square() * s.weights_T).sum(),
        metrics={"log_ratio": ops.metric(sums_T, s), "surprise": ops.metric(-s.new_logprobs_T, s)},
    )
