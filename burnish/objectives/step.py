"""What is done to the advantages of all replies of a step together, after their groups.

A step is gone through in micro-batches that know nothing of each other, so this is done once, before them.

whiten       mean 0 and spread 1 over the step's tokens (REINFORCE++, https://arxiv.org/abs/2501.03262)
over_spread  divide by the spread over the step's replies (ScaleRL, https://arxiv.org/abs/2510.13786)
per_prompt   make every prompt count alike under `token_mean` (ScaleRL: prompt average)

`per_prompt` scales advantages, so it acts on the policy's term alone: a KL term stays a mean over tokens.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Step(NamedTuple):
    """Of the B replies of a step: advantage, number of trained tokens, and which group each is in (0, 1, ...)."""

    advantages_B: Tensor
    lengths_B: Tensor
    group_B: Tensor


def whiten(step: Step, epsilon: float = 1e-8) -> Tensor:
    """Subtract the mean and divide by the (unbiased) spread, both over tokens."""
    num_tokens = step.lengths_B.sum()
    mean = (step.advantages_B * step.lengths_B).sum() / num_tokens
    centered_B = step.advantages_B - mean
    variance = (centered_B.square() * step.lengths_B).sum() / (num_tokens - 1).clamp(min=1)
    return centered_B / (variance + epsilon).sqrt()


def over_spread(step: Step, epsilon: float = 1e-6) -> Tensor:
    """Divide by the (unbiased) spread of the advantages; the mean stays."""
    if len(step.advantages_B) < 2:
        return step.advantages_B
    return step.advantages_B / (step.advantages_B.std() + epsilon)


def per_prompt(step: Step) -> Tensor:
    """Weigh each group by the mean number of tokens a group over its own."""
    num_groups = int(step.group_B.max()) + 1
    tokens_P = torch.zeros(num_groups, dtype=step.advantages_B.dtype).index_add(
        0, step.group_B, step.lengths_B.to(step.advantages_B.dtype)
    )
    return step.advantages_B * (tokens_P.mean() / tokens_P)[step.group_B]
