"""RLOO: REINFORCE, where the baseline is the mean reward of the *other* replies to the prompt.

Back to Basics, https://arxiv.org/abs/2402.14740. Leaving a reply out of its own baseline keeps the
estimate unbiased. The paper's reward holds a KL penalty: subtract `coefficient * kl.k1` from the rewards, or
add `kl.penalty`. On policy only; `old_logprobs_T` is not read.
Aggregation: `seq_mean_token_sum`, a reply is one action.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "seq_mean_token_sum"
ON_POLICY = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """There is nothing to choose."""


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """The reward above the mean of the others; equals the centred reward times G / (G - 1)."""
    group_size = len(rewards_G)
    return ops.center(rewards_G, divide_by_std=False) * (group_size / (group_size - 1))


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood times advantage, summed over tokens."""
    return ops.policy_gradient(s, ops.required(s.advantages_T, "advantages_T"))
