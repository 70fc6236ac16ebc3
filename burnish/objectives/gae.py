"""Generalised advantage estimation, over the tokens that the policy chose.

https://arxiv.org/abs/1506.02438, eq. 11 to 16. A token that came from the environment (a tool's output)
is no action: the estimate steps over it, from one chosen token to the next, and its value is never read.
A reward that arrives at such a token is credited to the last chosen token before it, undiscounted.
Defaults: gamma 1 and lambda 0.95, as is usual for language models; the paper has none.
Covered: one sequence a call; `bootstrap` for a sequence that was cut off. Not covered: gradients.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Estimate(NamedTuple):
    """Advantages, and the returns that values are trained towards; both 0 where the policy did not choose."""

    advantages_T: Tensor
    returns_T: Tensor


def estimate(
    rewards_T: Tensor,
    values_T: Tensor,
    was_sampled_T: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    bootstrap: float = 0.0,
) -> Estimate:
    """Estimate one sequence's advantages; `bootstrap` is the value of the state after its last token."""
    advantages = _backwards(
        rewards_T.tolist(), values_T.tolist(), was_sampled_T.tolist(), gamma=gamma, lam=lam, bootstrap=bootstrap
    )
    advantages_T = torch.tensor(advantages, dtype=values_T.dtype, device=values_T.device)
    returns_T = torch.where(was_sampled_T.bool(), advantages_T + values_T.detach(), 0.0)
    return Estimate(advantages_T=advantages_T, returns_T=returns_T)


def _backwards(
    rewards: Sequence[float],
    values: Sequence[float],
    was_sampled: Sequence[bool],
    *,
    gamma: float,
    lam: float,
    bootstrap: float,
) -> list[float]:
    advantages = [0.0] * len(values)
    next_value, next_advantage, observed_reward = bootstrap, 0.0, 0.0
    for t in reversed(range(len(values))):
        if not was_sampled[t]:
            observed_reward += rewards[t]
            continue
        surprise = rewards[t] + observed_reward + gamma * next_value - values[t]
        advantages[t] = surprise + gamma * lam * next_advantage
        next_value, next_advantage, observed_reward = values[t], advantages[t], 0.0
    return advantages
