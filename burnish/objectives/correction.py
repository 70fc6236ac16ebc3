"""Rollout correction: make up for a sampler that is not quite the trainer's policy.

Engine and trainer give one token different probabilities (kernels, precision, stale weights). Each
function returns one multiplier a token from `old_logprobs_T` (the trainer's) and `rollout_logprobs_T`
(the sampler's), without gradient; `apply` multiplies the *advantages* with it. This is the same as
multiplying the policy term of each token, since min() and clip commute with a factor >= 0, and it leaves
alone the weights, the divisor, and what is not policy gradient (cross entropy, KL, metrics).
No thresholds of Geo-RS are published as defaults; [0.5, 2] is ours, and a band of a mean is wide.
With `old_logprobs_T` recomputed by the trainer before the first update this is decoupled PPO,
https://arxiv.org/abs/2110.00641 and AReaL, https://arxiv.org/abs/2505.24298.

tis                 token ratio, capped: https://fengyao.notion.site/off-policy-rl, cap 2
icepop              token ratio, and 0 outside a band: https://arxiv.org/abs/2510.18855, band [0.5, 5]
sequence_product    the whole sequence's ratio: unbiased, but grows with the length; give it a cap
sequence_geometric  its geometric mean a token (as in GSPO, https://arxiv.org/abs/2507.18071, eq. 7)
sequence_mask       the whole sequence's ratio, and 0 outside a band: TRL's `sequence_mask`, upper bound 3; Seq-MIS
geometric_mask      1 where the geometric mean lies in a band, else 0: verl's Geo-RS (docs/algo/rollout_corr_math.md)
geometric_mask_tis  the same, times `tis`: verl's Geo-RS-Token-TIS
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from burnish.objectives import Streams, ops


def apply(s: Streams, multipliers_T: Tensor) -> Streams:
    """Multiply the advantages; do it once, before the loss."""
    return replace(s, advantages_T=ops.required(s.advantages_T, "advantages_T") * multipliers_T)


def tis(s: Streams, cap: float = 2.0) -> Tensor:
    """Truncated importance sampling, token by token."""
    old_logprobs_T, rollout_logprobs_T = _both(s)
    return ops.truncated_importance(old_logprobs_T, rollout_logprobs_T, cap)


def icepop(s: Streams, low: float = 0.5, high: float = 5.0) -> Tensor:
    """The token ratio where it lies in [low, high]; other tokens are dropped."""
    return _inside(ops.importance_ratio(*_both(s)).detach(), low, high)


def sequence_product(s: Streams, cap: float = math.inf) -> Tensor:
    """The ratio of the whole sequence's probabilities, at each of its tokens."""
    return _capped(ops.sequence_sum(_log_ratio(s), s), cap)


def sequence_geometric(s: Streams, cap: float = math.inf) -> Tensor:
    """The sequence's ratio to the power 1 / length, at each of its tokens."""
    return _capped(ops.sequence_mean(_log_ratio(s), s), cap)


def sequence_mask(s: Streams, low: float = 0.0, high: float = 3.0) -> Tensor:
    """The whole sequence's ratio where it lies in [low, high]; other sequences are dropped."""
    return _inside(sequence_product(s), low, high)


def geometric_mask(s: Streams, low: float = 0.5, high: float = 2.0) -> Tensor:
    """1 at the tokens of sequences whose ratio a token lies in [low, high], 0 at others: a filter, no weight."""
    return (_inside(sequence_geometric(s), low, high) != 0).to(s.weights_T.dtype)


def geometric_mask_tis(s: Streams, low: float = 0.5, high: float = 2.0, cap: float = 2.0) -> Tensor:
    """Truncated importance sampling within the sequences that the filter keeps."""
    return geometric_mask(s, low, high) * tis(s, cap)


def _inside(ratio_T: Tensor, low: float, high: float) -> Tensor:
    return torch.where((ratio_T >= low) & (ratio_T <= high), ratio_T, 0.0)


def _both(s: Streams) -> tuple[Tensor, Tensor]:
    old_logprobs_T = ops.required(s.old_logprobs_T, "old_logprobs_T")
    return old_logprobs_T, ops.required(s.rollout_logprobs_T, "rollout_logprobs_T")


def _log_ratio(s: Streams) -> Tensor:
    old_logprobs_T, rollout_logprobs_T = _both(s)
    return old_logprobs_T - rollout_logprobs_T


def _capped(log_ratio_T: Tensor, cap: float) -> Tensor:
    return ops.importance_ratio(log_ratio_T, torch.zeros_like(log_ratio_T)).clamp(max=cap).detach()
