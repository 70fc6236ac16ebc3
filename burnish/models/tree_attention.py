"""Exact causal attention over trees of token spans: no mask, no padding, no gathering.

Spans lie in depth-first order, so that what continues a span lies right behind it. Attention is then a causal
square for each span, and a full rectangle for each that is continued: all tokens below it against its own keys.
Their outputs are joined by log-sum-exp, as in FlashAttention (https://arxiv.org/abs/2205.14135, section 3.1). In
the backward pass each piece is given the *joined* output and log-sum-exp; then its gradients are its share of the
whole gradient, and the shares add up (section 3.1 and appendix B.2: P = exp(S - L), dS = P (dP - rowsum(dO O))).

Each piece runs in torch's own processor kernel, which never forms the square either. Backward it runs in float32: that
kernel takes 1.3 to 4 times as long in bfloat16, on a processor that multiplies bfloat16 faster (AMX, 90 to 600 tokens).
Covered: processors, grouped key-value heads. Not covered: windows, masks, dropout.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Rectangle(NamedTuple):
    """A span `start` to `end`, and where the tokens that go on from it stop (`end` where there are none)."""

    start: int
    end: int
    below: int


class _Piece(NamedTuple):
    queries: slice
    keys: slice
    is_causal: bool


def tree_attention(
    q_H_T_D: Tensor, k_K_T_D: Tensor, v_K_T_D: Tensor, rectangles: Sequence[Rectangle], scale: float
) -> Tensor:
    """Attention output `[H, T, D]`; each token sees its own span up to itself, and the whole of those above."""
    squares = [_Piece(slice(r.start, r.end), slice(r.start, r.end), True) for r in rectangles]
    above = [_Piece(slice(r.end, r.below), slice(r.start, r.end), False) for r in rectangles if r.below > r.end]
    return _TreeAttention.apply(q_H_T_D, k_K_T_D, v_K_T_D, squares + above, scale)  # type: ignore[no-any-return]  # untyped


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_H_T_D: Tensor, k_K_T_D: Tensor, v_K_T_D: Tensor, pieces: list[_Piece], scale: float):
        q_K_R_T_D, k_K_R_T_D, v_K_R_T_D = _by_key_head(q_H_T_D, k_K_T_D, v_K_T_D)
        num_keys, num_repeats, num_tokens, _ = q_K_R_T_D.shape
        out_T_H_D = q_H_T_D.new_empty(num_tokens, len(q_H_T_D), v_K_T_D.shape[-1])
        out_K_R_T_D = out_T_H_D.transpose(0, 1).unflatten(0, (num_keys, num_repeats))
        lse_K_R_T = q_H_T_D.new_empty(num_keys, num_repeats, num_tokens, dtype=torch.float32)
        for piece in pieces:
            rows, keys = piece.queries, piece.keys
            part_K_R_N_D, part_lse_K_R_N = _forward(
                q_K_R_T_D[:, :, rows], k_K_R_T_D[:, :, keys], v_K_R_T_D[:, :, keys], 0.0, piece.is_causal, scale=scale
            )
            if piece.is_causal:
                out_K_R_T_D[:, :, rows], lse_K_R_T[:, :, rows] = part_K_R_N_D, part_lse_K_R_N
            else:
                _join(out_K_R_T_D[:, :, rows], lse_K_R_T[:, :, rows], part_K_R_N_D, part_lse_K_R_N)
        ctx.save_for_backward(q_H_T_D, k_K_T_D, v_K_T_D, out_T_H_D, lse_K_R_T)
        ctx.pieces, ctx.scale = pieces, scale
        return out_T_H_D.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor):
        *saved, lse_K_R_T = ctx.saved_tensors
        q_H_T_D, k_K_T_D, v_K_T_D, out_T_H_D, grad_H_T_D = (x.float() for x in (*saved, grads[0]))
        q_K_R_T_D, k_K_R_T_D, v_K_R_T_D = _by_key_head(q_H_T_D, k_K_T_D, v_K_T_D)
        shape = q_K_R_T_D.shape[:2]
        out_K_R_T_D = out_T_H_D.transpose(0, 1).unflatten(0, shape)
        grad_K_R_T_D = grad_H_T_D.unflatten(0, shape)
        dq_H_T_D, dk_K_T_D, dv_K_T_D = (_empty_token_major(x) for x in (q_H_T_D, k_K_T_D, v_K_T_D))
        dq_K_R_T_D = dq_H_T_D.unflatten(0, shape)
        for piece in ctx.pieces:
            rows, keys = piece.queries, piece.keys
            dq_K_R_N_D, dk_K_R_M_D, dv_K_R_M_D = _backward(
                grad_K_R_T_D[:, :, rows], q_K_R_T_D[:, :, rows], k_K_R_T_D[:, :, keys], v_K_R_T_D[:, :, keys],
                out_K_R_T_D[:, :, rows], lse_K_R_T[:, :, rows], 0.0, piece.is_causal, scale=ctx.scale,
            )  # fmt: skip
            _put(dq_K_R_T_D[:, :, rows], dq_K_R_N_D, adds=not piece.is_causal)
            _put(dk_K_T_D[:, keys], dk_K_R_M_D.sum(1), adds=not piece.is_causal)
            _put(dv_K_T_D[:, keys], dv_K_R_M_D.sum(1), adds=not piece.is_causal)
        return *(x.to(grads[0].dtype) for x in (dq_H_T_D, dk_K_T_D, dv_K_T_D)), None, None


def _by_key_head(q_H_T_D: Tensor, k_K_T_D: Tensor, v_K_T_D: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries by the key head that they read; keys and values repeated by stride, not by copy."""
    q_K_R_T_D = q_H_T_D.unflatten(0, (len(k_K_T_D), -1))
    num_repeats = q_K_R_T_D.shape[1]
    return (
        q_K_R_T_D,
        k_K_T_D[:, None].expand(-1, num_repeats, -1, -1),
        v_K_T_D[:, None].expand(-1, num_repeats, -1, -1),
    )


def _join(out_K_R_N_D: Tensor, lse_K_R_N: Tensor, part_K_R_N_D: Tensor, part_lse_K_R_N: Tensor) -> None:
    """Take further keys into an output that is softmax-weighted over the keys so far, in place."""
    joined_K_R_N = torch.logaddexp(lse_K_R_N, part_lse_K_R_N)
    before_K_R_N_D = out_K_R_N_D.float() * (lse_K_R_N - joined_K_R_N).exp_()[..., None]
    out_K_R_N_D.copy_(before_K_R_N_D.addcmul_(part_K_R_N_D, (part_lse_K_R_N - joined_K_R_N).exp_()[..., None]))
    lse_K_R_N.copy_(joined_K_R_N)


def _put(into: Tensor, value: Tensor, *, adds: bool) -> None:
    """The squares come first and meet each token once, so that only rectangles have something to add to."""
    if adds:
        into.add_(value)
    else:
        into.copy_(value)


def _empty_token_major(x_H_T_D: Tensor) -> Tensor:
    """Room in the memory order of projections, `[T, H, D]`, so that a gradient needs no copy on its way back."""
    return x_H_T_D.new_empty(x_H_T_D.shape[1], x_H_T_D.shape[0], x_H_T_D.shape[2]).transpose(0, 1)
