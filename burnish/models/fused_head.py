"""The head and its log-softmax as one step, in chunks: logits of all tokens never exist at once.

With logits z = W h / T and p = softmax(z), the derivative of log p_i is W_i - sum_v p_v W_v, over T. So
* where the head is frozen, the forward pass keeps that one expected row of W a token, and the backward pass makes
  no product with the vocabulary at all;
* where the head trains, its gradient needs p weighed by what comes from above, so the backward pass makes the
  logits of a chunk again; their normaliser is kept.
The entropy of p has the derivative -p_v (log p_v + entropy) by z_v; who differentiates it pays for logits that are made
again, also where the head is frozen.
With soft-capping, z = c tanh(W h / c) / T, each row of W is scaled by 1 - tanh^2.

Decisions: log-probabilities of several tokens a place cost no further product (for the KL to the k best tokens of
another model). The entropy comes from the same pass. Softmax is in float32, products are in the head's precision.
On a processor the compiled rows (`models/kernels`) work on the products where they lie, so that chunks are larger.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from burnish.models.kernels.rows import Rows, add_into, rows_for

_CHUNK_BYTES = 128 * 4  # of a column of logits, as products give them: a row of those costs less in large chunks
_ROWS_CHUNK_BYTES = 512 * 4  # the same where nothing else of that size is made


class Head(NamedTuple):
    """What turns hidden states into logits."""

    weight_V_D: Tensor
    bias_V: Tensor | None = None
    cap: float | None = None
    temperature: float = 1.0


class HeadStats(NamedTuple):
    """Log-probabilities of the ids that were asked for, and entropies (nats)."""

    logprobs_N_K: Tensor
    entropies_N: Tensor


def head_stats(head: Head, hidden_N_D: Tensor, ids_N_K: Tensor) -> HeadStats:
    """Log-probability of each id under softmax(logits / temperature), and the entropy of that distribution."""
    differentiates = torch.is_grad_enabled()
    trains_bias = head.bias_V is not None and head.bias_V.requires_grad
    head_trains = differentiates and (head.weight_V_D.requires_grad or trains_bias)
    keeps_expected = differentiates and hidden_N_D.requires_grad and not head_trains
    return HeadStats(*_HeadStats.apply(hidden_N_D, head.weight_V_D, head.bias_V, ids_N_K, head, keeps_expected))  # type: ignore[misc]


def logits(head: Head, hidden_N_D: Tensor) -> Tensor:
    """Float32 `[N, vocabulary]`, capped, before the temperature."""
    logits_N_V = torch.nn.functional.linear(hidden_N_D, head.weight_V_D, head.bias_V).float()
    return logits_N_V if head.cap is None else torch.tanh(logits_N_V / head.cap).mul_(head.cap)


class TopTokens(NamedTuple):
    """The likeliest tokens of each place, the likeliest first."""

    ids_N_K: Tensor
    logprobs_N_K: Tensor


@torch.no_grad()
def top_tokens(head: Head, hidden_N_D: Tensor, k: int) -> TopTokens:
    """The `k` likeliest tokens and their log-probabilities, for example of a teacher."""
    tops = [
        torch.log_softmax(logits(head, hidden_N_D[chunk]).div_(head.temperature), -1).topk(k)
        for chunk in _chunks(hidden_N_D)
    ]
    return TopTokens(torch.cat([top.indices for top in tops]), torch.cat([top.values for top in tops]))


class _HeadStats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_N_D: Tensor, weight_V_D: Tensor, bias_V: Tensor | None, ids_N_K: Tensor, head: Head,
        keeps_expected: bool,
    ):  # fmt: skip
        num = len(hidden_N_D)
        logprobs_N_K = hidden_N_D.new_empty(ids_N_K.shape, dtype=torch.float32)
        slopes_N_K = logprobs_N_K.new_ones(ids_N_K.shape) if head.cap is None else torch.empty_like(logprobs_N_K)
        entropies_N, lse_N = logprobs_N_K.new_empty(num), logprobs_N_K.new_empty(num)
        expected_N_D = torch.empty_like(hidden_N_D) if keeps_expected else hidden_N_D.new_empty(0)
        way = _way(head)
        for chunk in _chunks(hidden_N_D, way.chunk_bytes):
            found = way.stats(head, hidden_N_D[chunk], ids_N_K[chunk].contiguous(), keeps_expected)
            logprobs_N_K[chunk], lse_N[chunk], entropies_N[chunk] = found.logprobs_C_K, found.lse_C, found.entropies_C
            if found.slopes_C_K is not None:
                slopes_N_K[chunk] = found.slopes_C_K
            if found.scaled_C_V is not None:
                torch.mm(found.scaled_C_V.to(weight_V_D.dtype), weight_V_D, out=expected_N_D[chunk])
        ctx.save_for_backward(hidden_N_D, weight_V_D, ids_N_K, lse_N, expected_N_D, slopes_N_K, entropies_N)
        ctx.head, ctx.keeps_expected = head, keeps_expected
        ctx.set_materialize_grads(False)
        return logprobs_N_K, entropies_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None):
        of_logprobs_N_K, of_entropies_N = (None if grad is None else grad / ctx.head.temperature for grad in grads)
        if of_logprobs_N_K is None:
            of_logprobs_N_K = torch.zeros_like(ctx.saved_tensors[5])
        if ctx.keeps_expected and of_entropies_N is None:
            return _gradient_of_hidden(ctx, of_logprobs_N_K), None, None, None, None, None
        return (*_gradients_of_all(ctx, of_logprobs_N_K, of_entropies_N), None, None, None)


def _gradient_of_hidden(ctx: Any, grad_N_K: Tensor) -> Tensor:
    """From the expected rows that the forward pass kept."""
    _, weight_V_D, ids_N_K, _, expected_N_D, slopes_N_K, _ = ctx.saved_tensors
    chosen_N_D = torch.einsum("nk,nkd->nd", (grad_N_K * slopes_N_K).to(weight_V_D.dtype), weight_V_D[ids_N_K])
    total_N = grad_N_K.sum(-1).to(weight_V_D.dtype)
    return chosen_N_D.addcmul_(total_N[:, None], expected_N_D, value=-1)


def _gradients_of_all(
    ctx: Any, grad_N_K: Tensor, of_entropies_N: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Of hidden states, weight and bias, from logits that are made again."""
    hidden_N_D, weight_V_D, ids_N_K, lse_N, _, _, entropies_N = ctx.saved_tensors
    bias_V = ctx.head.bias_V
    dhidden_N_D = torch.empty_like(hidden_N_D)
    dweight_V_D = None
    dbias_V = None if bias_V is None else torch.zeros_like(bias_V, dtype=torch.float32)
    way = _way(ctx.head)
    for chunk in _chunks(hidden_N_D, way.chunk_bytes):
        of_entropies = None if of_entropies_N is None else (of_entropies_N[chunk], entropies_N[chunk])
        dlogits_C_V = way.gradient(
            ctx.head, hidden_N_D[chunk], ids_N_K[chunk].contiguous(), lse_N[chunk], grad_N_K[chunk].contiguous(),
            of_entropies,
        )  # fmt: skip
        rounded_C_V = dlogits_C_V.to(weight_V_D.dtype)
        torch.mm(rounded_C_V, weight_V_D, out=dhidden_N_D[chunk])
        if not ctx.keeps_expected:
            dweight_V_D = _added(dweight_V_D, rounded_C_V, hidden_N_D[chunk])
        if dbias_V is not None:
            dbias_V += dlogits_C_V.sum(0)
    return dhidden_N_D, None if dweight_V_D is None else dweight_V_D.to(weight_V_D.dtype), dbias_V


class _Found(NamedTuple):
    """Of one chunk; probabilities, times the slopes where there are some, if they are asked for."""

    logprobs_C_K: Tensor
    lse_C: Tensor
    entropies_C: Tensor
    slopes_C_K: Tensor | None
    scaled_C_V: Tensor | None


class _Way(NamedTuple):
    """How a chunk is worked on, forward and backward, and how much of a column of logits a chunk is."""

    stats: Callable[..., _Found]
    gradient: Callable[..., Tensor]
    chunk_bytes: int


def _way(head: Head) -> _Way:
    """The compiled rows, for heads that are a product and no more."""
    rows = rows_for(head.weight_V_D) if head.cap is None and head.bias_V is None else None
    if rows is None:
        return _Way(_stats_by_torch, _gradient_by_torch, _CHUNK_BYTES)
    return _Way(partial(_stats_by_rows, rows), partial(_gradient_by_rows, rows), _ROWS_CHUNK_BYTES)


def _stats_by_torch(head: Head, hidden_C_D: Tensor, ids_C_K: Tensor, keeps: bool) -> _Found:
    logits_C_V = logits(head, hidden_C_D)
    slopes_C_V = _slopes(head, logits_C_V)
    slopes_C_K = None if slopes_C_V is None else slopes_C_V.gather(-1, ids_C_K)
    raw_C = logits_C_V[:, 0] / head.temperature
    logprobs_C_V = torch.log_softmax(logits_C_V.div_(head.temperature), -1)
    logprobs_C_K, lse_C = logprobs_C_V.gather(-1, ids_C_K), raw_C - logprobs_C_V[:, 0]
    p_C_V = torch.exp(logprobs_C_V, out=logits_C_V)
    entropies_C = -torch.linalg.vecdot(p_C_V, logprobs_C_V)
    scaled_C_V = None if not keeps else p_C_V if slopes_C_V is None else p_C_V.mul_(slopes_C_V)
    return _Found(logprobs_C_K, lse_C, entropies_C, slopes_C_K, scaled_C_V)


def _stats_by_rows(rows: Rows, head: Head, hidden_C_D: Tensor, ids_C_K: Tensor, keeps: bool) -> _Found:
    z_C_V = hidden_C_D @ head.weight_V_D.T
    return _Found(*rows.softmax(z_C_V, ids_C_K, 1 / head.temperature, keeps=keeps), None, z_C_V if keeps else None)


def _gradient_by_torch(
    head: Head, hidden_C_D: Tensor, ids_C_K: Tensor, lse_C: Tensor, grad_C_K: Tensor,
    of_entropies: tuple[Tensor, Tensor] | None,
) -> Tensor:  # fmt: skip
    """What comes from above, less its sum times the probabilities; of entropies, their factors and values."""
    logits_C_V = logits(head, hidden_C_D)
    slopes_C_V = _slopes(head, logits_C_V)
    logprobs_C_V = logits_C_V.div_(head.temperature).sub_(lse_C[:, None])
    from_above_C_1 = grad_C_K.sum(-1, keepdim=True)
    if of_entropies is None:
        dlogits_C_V = logprobs_C_V.exp_().mul_(-from_above_C_1)
    else:
        factor_C, entropies_C = of_entropies
        surprise_C_V = (logprobs_C_V + entropies_C[:, None]).mul_(factor_C[:, None]).add_(from_above_C_1)
        dlogits_C_V = logprobs_C_V.exp_().mul_(surprise_C_V).neg_()
    dlogits_C_V.scatter_add_(-1, ids_C_K, grad_C_K)
    return dlogits_C_V if slopes_C_V is None else dlogits_C_V.mul_(slopes_C_V)


def _gradient_by_rows(
    rows: Rows, head: Head, hidden_C_D: Tensor, ids_C_K: Tensor, lse_C: Tensor, grad_C_K: Tensor,
    of_entropies: tuple[Tensor, Tensor] | None,
) -> Tensor:  # fmt: skip
    """As `_gradient_by_torch`, in the precision of the products."""
    z_C_V = hidden_C_D @ head.weight_V_D.T
    factor_C, entropies_C = (None, lse_C) if of_entropies is None else of_entropies
    rows.softmax_back(z_C_V, ids_C_K, grad_C_K, factor_C, lse_C, entropies_C, 1 / head.temperature)
    return z_C_V


def _slopes(head: Head, logits_C_V: Tensor) -> Tensor | None:
    """By how much capped logits follow the products that they come from; None where they are the products."""
    return None if head.cap is None else 1 - (logits_C_V / head.cap).square_()


def _added(sum_V_D: Tensor | None, dlogits_C_V: Tensor, hidden_C_D: Tensor) -> Tensor:
    """A sum with one product more, in float32 from the second on; without a temporary where products are in it too."""
    if sum_V_D is None:
        return dlogits_C_V.T @ hidden_C_D
    if hidden_C_D.dtype == torch.float32:
        return sum_V_D.addmm_(dlogits_C_V.T, hidden_C_D)
    return add_into(sum_V_D.float(), dlogits_C_V.T @ hidden_C_D)


def _chunks(hidden_N_D: Tensor, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[slice]:
    num = chunk_bytes // hidden_N_D.element_size()
    return (slice(start, start + num) for start in range(0, len(hidden_N_D), num))
