"""One attention function for everything: training, prefill and decoding of any transformers model.

Every forward here is one row of tokens, `[1, T]`. Which token sees which is said by a *layout* that
is passed through the model's keyword arguments to `attend`, registered with transformers as the
attention implementation `burnish`. So there is no square mask over a pack, no padding in the layers,
and a prompt shared by a group is computed once.

Covered: causal attention with grouped key-value heads, scaling, sliding windows. Not covered:
attention dropout, logit soft-capping and sinks (refused), encoders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

IMPLEMENTATION = "burnish"


class Span(NamedTuple):
    """Tokens `start` to `start + length` of a pack."""

    start: int
    length: int


class Block(NamedTuple):
    """A causal prefix, and members that each see the whole prefix and themselves, causally.

    A plain sequence is a block without members; a group that shares its prompt has one a sample.
    """

    prefix: Span
    members: tuple[Span, ...] = ()


class Layout(Protocol):
    """Decides which keys each query sees."""

    def attend(
        self, layer: int, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """Return the attention output `[H, T, D]`."""
        ...


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: Layout,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Hand one layer's attention over to the layout (transformers' attention interface)."""
    if dropout or kwargs.get("softcap") or kwargs.get("s_aux") is not None:
        raise NotImplementedError(
            "attention dropout, soft-capping and sinks are not supported; set them off in the model"
        )
    assert attention_mask is None
    layer: int = module.layer_idx  # type: ignore[assignment]  # every transformers attention has it
    out_H_T_D = layout.attend(layer, query[0], key[0], value[0], scaling, sliding_window)
    return out_H_T_D.transpose(0, 1).unsqueeze(0), None


AttentionInterface.register(IMPLEMENTATION, attend)


@dataclass(frozen=True, slots=True)
class _Members:
    """The members of a block, padded to the longest, with the tokens and keys that each sees."""

    prefix: Span
    token_index_M_R: Tensor
    is_token_M_R: Tensor
    may_see_M_R_K: Tensor


class PackedLayout:
    """Blocks laid end to end, each blind to the others: for training and scoring."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self._members = [_pad_members(block) for block in blocks]

    def attend(
        self, layer: int, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """See `Layout`. Prefixes run one by one, the members of a block together."""
        outs: list[Tensor] = []
        for block, members in zip(self.blocks, self._members, strict=True):
            span = slice(block.prefix.start, block.prefix.start + block.prefix.length)
            outs.append(_causal(q_H_T_D[:, span], k_H_T_D[:, span], v_H_T_D[:, span], scale, window))
            if members is not None:
                outs.append(_attend_members(members, q_H_T_D, k_H_T_D, v_H_T_D, scale, window))
        return torch.cat(outs, dim=1)


def _causal(q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None) -> Tensor:
    length = q_H_T_D.shape[1]
    mask_T_T = None
    if window is not None and length > window:
        distance_T_T = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        mask_T_T = ((distance_T_T >= 0) & (distance_T_T < window)).to(q_H_T_D.device)
    return functional.scaled_dot_product_attention(
        q_H_T_D[None], k_H_T_D[None], v_H_T_D[None],
        attn_mask=mask_T_T, is_causal=mask_T_T is None, scale=scale, enable_gqa=True,
    )[0]  # fmt: skip


def _pad_members(block: Block) -> _Members | None:
    if not block.members:
        return None
    longest = max(span.length for span in block.members)
    start_M = torch.tensor([span.start for span in block.members])
    length_M = torch.tensor([span.length for span in block.members])
    offset_R = torch.arange(longest)
    is_token_M_R = offset_R < length_M[:, None]
    causal_R_R = offset_R[None, :] <= offset_R[:, None]
    sees_prefix_R_P = torch.ones(longest, block.prefix.length, dtype=torch.bool)
    may_see_R_K = torch.cat([sees_prefix_R_P, causal_R_R], dim=1)
    return _Members(
        prefix=block.prefix,
        token_index_M_R=start_M[:, None] + torch.minimum(offset_R, length_M[:, None] - 1),
        is_token_M_R=is_token_M_R,
        may_see_M_R_K=may_see_R_K.expand(len(block.members), -1, -1),
    )


def _attend_members(
    m: _Members, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
) -> Tensor:
    num_members, longest = m.token_index_M_R.shape
    may_see_M_R_K = m.may_see_M_R_K
    if window is not None and m.prefix.length + longest > window:
        position_R = m.prefix.length + torch.arange(longest)
        distance_R_K = position_R[:, None] - torch.arange(m.prefix.length + longest)[None, :]
        may_see_M_R_K = may_see_M_R_K & (distance_R_K < window)
    out_M_H_R_D = functional.scaled_dot_product_attention(
        _gather(q_H_T_D, m.token_index_M_R),
        torch.cat([_prefix(k_H_T_D, m.prefix, num_members), _gather(k_H_T_D, m.token_index_M_R)], dim=2),
        torch.cat([_prefix(v_H_T_D, m.prefix, num_members), _gather(v_H_T_D, m.token_index_M_R)], dim=2),
        attn_mask=may_see_M_R_K[:, None].to(q_H_T_D.device),
        scale=scale,
        enable_gqa=True,
    )
    return out_M_H_R_D.transpose(0, 1)[:, m.is_token_M_R]


def _gather(x_H_T_D: Tensor, index_M_R: Tensor) -> Tensor:
    return x_H_T_D[:, index_M_R].transpose(0, 1)


def _prefix(x_H_T_D: Tensor, prefix: Span, num_members: int) -> Tensor:
    return x_H_T_D[None, :, prefix.start : prefix.start + prefix.length].expand(num_members, -1, -1, -1)
