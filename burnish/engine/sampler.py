"""Draw one token for each row from logits, given one uniform number a row.

The draw inverts the cumulative distribution, so that a row's token depends on its logits and its number alone,
whatever else is in the batch. Sums run in double precision inside torch's cumulative sum and are kept in
float32: probabilities below 6e-8 may be rounded away. Log-probabilities are of what is drawn from: after the
filters, renormalised. Order: temperature, top-k, top-p, min-p; what comes before is in `shaping`.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from burnish.engine.params import SamplingParams

_MOST_NUCLEI = 1024  # top-p sorts this many candidates first, and all only where they do not hold enough mass


class Draw(NamedTuple):
    """Per row: the token drawn, and its log-probability under the distribution it was drawn from."""

    token_ids_B: Tensor
    logprobs_B: Tensor


class Top(NamedTuple):
    """Per row: the most probable tokens in falling order, and their log-probabilities (-inf: never drawn)."""

    token_ids_B_N: Tensor
    logprobs_B_N: Tensor


class _Candidates(NamedTuple):
    """Weights of what may be drawn; candidate i is token i where there are no ids."""

    weights_B_C: Tensor
    ids_B_C: Tensor | None


def draw(logits_B_V: Tensor, params: SamplingParams, uniforms_B: Tensor) -> Draw:
    """Draw with one set of parameters; `logits_B_V` is float32, `uniforms_B` lies in [0, 1)."""
    if params.temperature == 0:
        logprobs_B_V = torch.log_softmax(logits_B_V, dim=-1)
        token_ids_B = logits_B_V.argmax(-1)
        return Draw(token_ids_B, logprobs_B_V.gather(-1, token_ids_B[:, None])[:, 0])
    weights_B_C, ids_B_C = _candidates(logits_B_V, params)
    drawn = _invert(weights_B_C, uniforms_B)
    if ids_B_C is None:
        return drawn
    return Draw(ids_B_C.gather(-1, drawn.token_ids_B[:, None])[:, 0], drawn.logprobs_B)


def top(logits_B_V: Tensor, params: SamplingParams) -> Top:
    """Name the `params.top_logprobs` most probable tokens of the distribution that `draw` draws from."""
    if params.temperature == 0:
        logprobs_B_V = torch.log_softmax(logits_B_V, dim=-1)
        logprobs_B_N, token_ids_B_N = logprobs_B_V.topk(min(params.top_logprobs, logits_B_V.shape[-1]))
        return Top(token_ids_B_N, logprobs_B_N)
    weights_B_C, ids_B_C = _candidates(logits_B_V, params)
    weights_B_N, index_B_N = weights_B_C.topk(min(params.top_logprobs, weights_B_C.shape[-1]))
    logprobs_B_N = (weights_B_N / weights_B_C.sum(-1, keepdim=True)).log()
    return Top(index_B_N if ids_B_C is None else ids_B_C.gather(-1, index_B_N), logprobs_B_N)


def _candidates(logits_B_V: Tensor, params: SamplingParams) -> _Candidates:
    """Temperature and filters."""
    scaled_B_V = logits_B_V if params.temperature == 1 else logits_B_V / params.temperature
    probs_B_V = torch.softmax(scaled_B_V, dim=-1)
    if params.top_k == 0 and params.top_p >= 1:
        return _Candidates(_at_least(probs_B_V, params.min_p), None)
    sorted_B_C, ids_B_C = _largest(probs_B_V, params)
    return _Candidates(_at_least(_nucleus(sorted_B_C, params), params.min_p), ids_B_C)


def _largest(probs_B_V: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor]:
    """The candidates in falling order: top-k of them, or enough to hold `top_p` of the mass."""
    vocabulary = probs_B_V.shape[-1]
    if params.top_k > 0:
        return probs_B_V.topk(min(params.top_k, vocabulary))
    sorted_B_C, ids_B_C = probs_B_V.topk(min(_MOST_NUCLEI, vocabulary))
    is_short_B = sorted_B_C.sum(-1) < params.top_p
    if not is_short_B.any():
        return sorted_B_C, ids_B_C
    # The other rows keep the order that they have alone: the two ways order equal probabilities differently.
    num_added = vocabulary - sorted_B_C.shape[-1]
    sorted_B_V, ids_B_V = functional.pad(sorted_B_C, (0, num_added)), functional.pad(ids_B_C, (0, num_added))
    sorted_B_V[is_short_B], ids_B_V[is_short_B] = probs_B_V[is_short_B].sort(descending=True, stable=True)
    return sorted_B_V, ids_B_V


def _nucleus(sorted_B_C: Tensor, params: SamplingParams) -> Tensor:
    """Zero all beyond the smallest set that holds `top_p` of the candidates' mass."""
    if params.top_p >= 1:
        return sorted_B_C
    total_B = sorted_B_C.sum(-1, keepdim=True) if params.top_k > 0 else 1.0
    before_B_C = sorted_B_C.cumsum(-1) - sorted_B_C
    return torch.where(before_B_C < params.top_p * total_B, sorted_B_C, 0.0)


def _at_least(probs_B_C: Tensor, min_p: float) -> Tensor:
    """Zero all below `min_p` times the largest."""
    if min_p <= 0:
        return probs_B_C
    return torch.where(probs_B_C >= min_p * probs_B_C.amax(-1, keepdim=True), probs_B_C, 0.0)


def _invert(weights_B_C: Tensor, uniforms_B: Tensor) -> Draw:
    """The first candidate whose cumulative weight exceeds the row's number: never one of weight 0.

    There always is one: a number is at most 1 - 2^-24, and that times any float32 rounds to less than it. Where weights
    are NaN the last candidate is named, and its log-probability is NaN.
    """
    sums_B_C = weights_B_C.cumsum(-1)
    total_B_1 = sums_B_C[:, -1:]
    index_B_1 = torch.searchsorted(sums_B_C, uniforms_B[:, None] * total_B_1, right=True)
    index_B_1.clamp_(max=weights_B_C.shape[-1] - 1)
    return Draw(index_B_1[:, 0], (weights_B_C.gather(-1, index_B_1) / total_B_1).log()[:, 0])
