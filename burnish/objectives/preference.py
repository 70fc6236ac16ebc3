"""Losses on pairs of replies, of which one was preferred. All return one loss a pair, or a reply.

Inputs are sums of log-probabilities over whole replies; lengths are counts of tokens.

dpo            https://arxiv.org/abs/2305.18290, eq. 7; `label_smoothing` is cDPO, https://ericmitchell.ai/cdpo.pdf
ipo            https://arxiv.org/abs/2310.12036, eq. 17; with `lengths`, on means a token
simpo          https://arxiv.org/abs/2405.14734, eq. 6
orpo_term      https://arxiv.org/abs/2403.07691, eq. 7: the odds-ratio term without its factor and its cross entropy
kto            https://arxiv.org/abs/2402.01306, section 4: replies need no partner; `z0` is the caller's KL estimate
bradley_terry  https://arxiv.org/abs/2203.02155, eq. 1; `margin` as in Llama 2, https://arxiv.org/abs/2307.09288, eq. 2

Defaults are the papers'. Not covered: the estimate of KTO's `z0`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One quantity of B pairs: of the preferred replies and of the others."""

    chosen_B: Tensor
    rejected_B: Tensor


def dpo(policy: Pair, ref: Pair, *, beta: float = 0.1, label_smoothing: float = 0.0) -> Tensor:
    """Classify which reply was preferred, by the implicit reward; a share of the labels may be wrong."""
    margin_B = beta * (_log_ratio(policy, ref).chosen_B - _log_ratio(policy, ref).rejected_B)
    return -(1 - label_smoothing) * logsigmoid(margin_B) - label_smoothing * logsigmoid(-margin_B)


def ipo(policy: Pair, ref: Pair, *, beta: float = 0.1, lengths: Pair | None = None) -> Tensor:
    """Regress the margin to 1 / (2 beta), which cannot run away as DPO's can."""
    log_ratio = _log_ratio(policy, ref)
    if lengths is not None:
        log_ratio = _per_token(log_ratio, lengths)
    return (log_ratio.chosen_B - log_ratio.rejected_B - 1 / (2 * beta)).square()


def simpo(policy: Pair, lengths: Pair, *, beta: float = 2.0, gamma: float = 0.5) -> Tensor:
    """DPO on means a token, without a reference, beyond a margin of `gamma`."""
    mean = _per_token(policy, lengths)
    return -logsigmoid(beta * (mean.chosen_B - mean.rejected_B) - gamma)


def orpo_term(policy: Pair, lengths: Pair) -> Tensor:
    """The odds of the preferred reply against the odds of the other."""
    mean = _per_token(policy, lengths)
    return -logsigmoid(_log_odds(mean.chosen_B) - _log_odds(mean.rejected_B))


def kto(
    policy_B: Tensor,
    ref_B: Tensor,
    was_desirable_B: Tensor,
    z0: Tensor,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> Tensor:
    """Prospect theory: gains and losses against the reference point `z0`, which carries no gradient."""
    gain_B = beta * (policy_B - ref_B - z0.detach())
    good_B = desirable_weight * (1 - torch.sigmoid(gain_B))
    bad_B = undesirable_weight * (1 - torch.sigmoid(-gain_B))
    return torch.where(was_desirable_B, good_B, bad_B)


def bradley_terry(rewards: Pair, margin_B: Tensor | float = 0.0) -> Tensor:
    """Train a reward model: the preferred reply's reward is higher, by a margin if known."""
    return -logsigmoid(rewards.chosen_B - rewards.rejected_B - margin_B)


def _log_ratio(policy: Pair, ref: Pair) -> Pair:
    return Pair(chosen_B=policy.chosen_B - ref.chosen_B, rejected_B=policy.rejected_B - ref.rejected_B)


def _per_token(sums: Pair, lengths: Pair) -> Pair:
    return Pair(chosen_B=sums.chosen_B / lengths.chosen_B, rejected_B=sums.rejected_B / lengths.rejected_B)


def _log_odds(logprobs_B: Tensor) -> Tensor:
    """Log of p / (1 - p), from log p; exact also where p is near 1."""
    return logprobs_B - torch.log(-torch.expm1(logprobs_B))
