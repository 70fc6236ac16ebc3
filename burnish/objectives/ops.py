"""Arithmetic that several objectives share.

Decisions: a log-ratio is cut at +-20 before it is exponentiated, so that one absurd token (a ratio of
5e8) cannot make a loss infinite; group statistics are taken of differences to the first reward, so that
a group of equal rewards gives exact zeros in every precision; sequence means are taken over the tokens
whose weight is not zero, so that padding is invisible.
Covered: single groups of rewards, streams laid end to end. Not covered: log-probabilities that are
infinite or NaN, even where the weight is zero.
"""

import math

import torch
from torch import Tensor

from burnish.objectives import Loss, Streams

LOG_RATIO_LIMIT = 20.0


def required(stream: Tensor | None, name: str) -> Tensor:
    """Return a stream that an objective cannot do without."""
    if stream is None:
        raise ValueError(f"this objective reads Streams.{name}; got None; fill it, or choose an objective without it")
    return stream


def center(rewards_G: Tensor, *, divide_by_std: bool, epsilon: float = 1e-6) -> Tensor:
    """Measure each reward against its group's mean, in units of its (unbiased) spread if asked to."""
    if len(rewards_G) < 2:
        raise ValueError(f"a group needs at least two rewards to be its own baseline; got {len(rewards_G)}")
    differences_G = rewards_G - rewards_G[0]
    centered_G = differences_G - differences_G.mean()
    return centered_G / (differences_G.std() + epsilon) if divide_by_std else centered_G


def importance_ratio(logprobs_T: Tensor, behaviour_logprobs_T: Tensor) -> Tensor:
    """How much likelier a token is under the first policy than under the second."""
    return (logprobs_T - behaviour_logprobs_T).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def behaviour_logprobs(s: Streams, *, of_sampler: bool) -> Tensor:
    """The policy that a ratio is taken to: the sampler itself, or the proximal policy."""
    if of_sampler:
        return required(s.rollout_logprobs_T, "rollout_logprobs_T")
    return required(s.old_logprobs_T, "old_logprobs_T")


def truncated_importance(old_logprobs_T: Tensor, rollout_logprobs_T: Tensor, cap: float) -> Tensor:
    """The ratio between the trainer's and the sampler's probabilities, at most `cap`; carries no gradient."""
    return importance_ratio(old_logprobs_T, rollout_logprobs_T).clamp(max=cap).detach()


def sequence_sum(values_T: Tensor, s: Streams) -> Tensor:
    """Give each token the sum of `values_T` over its sequence's tokens of non-zero weight."""
    index_T = torch.unique(s.sequence_T, return_inverse=True)[1]
    counted_T = torch.where(s.weights_T != 0, values_T, 0.0)
    return torch.zeros_like(values_T).index_add(0, index_T, counted_T)[index_T]


def sequence_mean(values_T: Tensor, s: Streams) -> Tensor:
    """Give each token the mean of `values_T` over its sequence's tokens of non-zero weight."""
    return sequence_sum(values_T, s) / sequence_sum(torch.ones_like(values_T), s).clamp(min=1)


def metric(values_T: Tensor, s: Streams) -> Tensor:
    """Sum a measurement like a loss, without gradient."""
    return (values_T.detach() * s.weights_T).sum()


def policy_gradient(s: Streams, scores_T: Tensor) -> Loss:
    """Raise the log-probability of each token in proportion to its score, which carries no gradient."""
    return Loss(
        total=-(scores_T.detach() * s.new_logprobs_T * s.weights_T).sum(),
        metrics={"surprise": metric(-s.new_logprobs_T, s)},
    )


def clipped_surrogate(
    s: Streams, ratio_T: Tensor, clip_low: float, clip_high: float, dual_clip: float = math.inf
) -> Loss:
    """Follow the advantage while the ratio is in [1 - clip_low, 1 + clip_high]; pessimistic outside.

    `dual_clip` bounds the pessimism on bad tokens, https://arxiv.org/abs/1912.09729, eq. 5: their surrogate
    is at least `dual_clip * advantage`. `clip_fraction` counts the tokens that clipping robbed of their
    gradient, and `ratio` is 1 on policy.
    """
    advantages_T = required(s.advantages_T, "advantages_T")
    free_T = ratio_T * advantages_T
    clipped_T = ratio_T.clamp(1 - clip_low, 1 + clip_high) * advantages_T
    floor_T = torch.where(advantages_T < 0, dual_clip * advantages_T, -math.inf)
    pessimistic_T = torch.minimum(free_T, clipped_T)
    was_clipped_T = (clipped_T < free_T) | (pessimistic_T < floor_T)
    return Loss(
        total=-(torch.maximum(pessimistic_T, floor_T) * s.weights_T).sum(),
        metrics={
            "clip_fraction": metric(was_clipped_T.to(ratio_T.dtype), s),
            "ratio": metric(ratio_T, s),
            "surprise": metric(-s.new_logprobs_T, s),
        },
    )


def add(*losses: Loss) -> Loss:
    """Add terms into one loss; no two of them may report a metric under one name."""
    names = [name for loss in losses for name in loss.metrics]
    assert len(names) == len(set(names)), f"two loss terms report the same metric; got {sorted(names)}"
    return Loss(
        total=torch.stack([loss.total for loss in losses]).sum(),
        metrics={name: value for loss in losses for name, value in loss.metrics.items()},
    )
