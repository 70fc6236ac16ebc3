"""Pairs of replies to one prompt, of which one was preferred: from streams of tokens to sums of replies.

Sequences 2k and 2k + 1 of a call are a pair; `advantages_T` is positive on the preferred reply, negative on
the other. A pair that lost a member (or a member that trains no token) gives NaN, not a wrong number. With the
aggregation `pair_mean` the divisor is the number of pairs, of the loss and of each metric.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from burnish.objectives import Loss, Streams, ops


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One quantity of B pairs: of the preferred replies and of the others."""

    chosen_B: Tensor
    rejected_B: Tensor


def margin(pair: Pair) -> Tensor:
    """By how much the preferred reply is ahead."""
    return pair.chosen_B - pair.rejected_B


def sums(values_T: Tensor, s: Streams) -> Pair:
    """Sum `values_T` over the tokens of each reply that have a weight."""
    is_counted_T = s.weights_T != 0
    is_chosen_T = ops.required(s.advantages_T, "advantages_T") > 0
    pairs_B, pair_T = torch.unique(s.sequence_T // 2, return_inverse=True)
    zeros_B = values_T.new_zeros(len(pairs_B))

    def of(is_member_T: Tensor) -> Tensor:
        num_B = zeros_B.index_add(0, pair_T, is_member_T.to(values_T.dtype))
        return zeros_B.index_add(0, pair_T, torch.where(is_member_T, values_T, 0.0)) * (num_B / num_B)

    return Pair(chosen_B=of(is_counted_T & is_chosen_T), rejected_B=of(is_counted_T & ~is_chosen_T))


def lengths(s: Streams) -> Pair:
    """Count the tokens of each reply that have a weight."""
    return sums(torch.ones_like(s.weights_T), s)


def per_token(totals: Pair, num_tokens: Pair) -> Pair:
    """Divide sums by lengths."""
    return Pair(chosen_B=totals.chosen_B / num_tokens.chosen_B, rejected_B=totals.rejected_B / num_tokens.rejected_B)


def logprobs(s: Streams) -> Pair:
    """Log-probabilities of whole replies under the policy that trains."""
    return sums(s.new_logprobs_T, s)


def log_ratios(s: Streams) -> Pair:
    """Log-probabilities of whole replies, policy against reference."""
    return sums(s.new_logprobs_T - ops.required(s.ref_logprobs_T, "ref_logprobs_T"), s)


def total(losses_B: Tensor, rewards: Pair) -> Loss:
    """Add up the losses; `rewards` are what the loss compares: whom they prefer, and by how much, is measured."""
    margin_B = margin(rewards).detach()
    return Loss(
        total=losses_B.sum(),
        metrics={
            "accuracy": (margin_B > 0).to(margin_B.dtype).sum(),
            "margin": margin_B.sum(),
            "reward_chosen": rewards.chosen_B.detach().sum(),
            "reward_rejected": rewards.rejected_B.detach().sum(),
        },
    )


def scaled(pair: Pair, factor: float) -> Pair:
    """Multiply both members."""
    return Pair(chosen_B=factor * pair.chosen_B, rejected_B=factor * pair.rejected_B)
