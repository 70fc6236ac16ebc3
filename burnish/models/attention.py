"""One attention function for everything: training, prefill and decoding of any transformers model.

Every forward here is one row of tokens, `[1, T]`. Which token sees which is said by a *layout* that
is passed through the model's keyword arguments to `attend`, registered with transformers as the
attention implementation `burnish`. So there is no square mask over a pack, no padding in the layers,
and what sequences begin with in common is computed once.

Covered: causal attention with grouped key-value heads, scaling, sliding windows. Not covered:
attention dropout, logit soft-capping and sinks (refused), encoders.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from burnish.models.tree_attention import Rectangle, tree_attention

IMPLEMENTATION = "burnish"


class Span(NamedTuple):
    """Tokens `start` to `start + length` of a pack."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """The first token behind it."""
        return self.start + self.length


class Block(NamedTuple):
    """A causal prefix, and members that each see the whole prefix and themselves, causally.

    A plain sequence is a block without members; a group that shares its prompt has one a sample. A member that
    is a block again makes a tree. Members lie behind their prefix, in order, with nothing between.
    """

    prefix: Span
    members: "tuple[Span | Block, ...]" = ()


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


class _Node(NamedTuple):
    """A span of a tree, the spans that it continues, and where the spans that continue it end."""

    span: Span
    ancestors: tuple[Span, ...]
    end: int


class PackedLayout:
    """Blocks laid end to end, each blind to the others: for training and scoring.

    On a processor, and without a window that bites, the whole pack is `tree_attention`: no mask at all. Else
    each span attends to what its sequence is so far, with a mask of its own length times that.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._nodes = [node for block in blocks for node in _nodes(block, ())]
        self._longest = max((_depth(node) for node in self._nodes), default=0)
        for before, node in zip(self._nodes, self._nodes[1:], strict=False):
            assert before.span.end == node.span.start, f"{node.span} does not lie behind {before.span}"
        self._rectangles = [
            Rectangle(node.span.start, node.span.end, node.end) for node in self._nodes if node.span.length
        ]

    def attend(
        self, layer: int, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """See `Layout`."""
        if window is not None and self._longest <= window:
            window = None
        if window is None and q_H_T_D.device.type == "cpu":
            return tree_attention(q_H_T_D, k_H_T_D, v_H_T_D, self._rectangles, scale)
        outs = [_attend_masked(node, q_H_T_D, k_H_T_D, v_H_T_D, scale, window) for node in self._nodes]
        return torch.cat(outs, dim=1)


def _nodes(block: Span | Block, ancestors: tuple[Span, ...]) -> Iterator[_Node]:
    if isinstance(block, Span):
        block = Block(block)
    below = [node for member in block.members for node in _nodes(member, (*ancestors, block.prefix))]
    yield _Node(block.prefix, ancestors, below[-1].end if below else block.prefix.end)
    yield from below


def _depth(node: _Node) -> int:
    return sum(span.length for span in node.ancestors) + node.span.length


def _attend_masked(
    node: _Node, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
) -> Tensor:
    """Attention of one span to its sequence so far: keys that no query's window reaches are left out."""
    total, own = _depth(node), node.span.length
    first = 0 if window is None else max(0, total - own + 1 - window)
    is_plain = total == own and (window is None or total <= window)
    return functional.scaled_dot_product_attention(
        q_H_T_D[None, :, node.span.start : node.span.end],
        _so_far(node, k_H_T_D)[None, :, first:],
        _so_far(node, v_H_T_D)[None, :, first:],
        attn_mask=None if is_plain else _mask(total, own, window, q_H_T_D.device)[:, first:],
        is_causal=is_plain,
        scale=scale,
        enable_gqa=True,
    )[0]


def _so_far(node: _Node, x_H_T_D: Tensor) -> Tensor:
    return torch.cat([x_H_T_D[:, span.start : span.end] for span in (*node.ancestors, node.span)], dim=1)


def _mask(total: int, own: int, window: int | None, device: torch.device) -> Tensor:
    """Which of a sequence's `total` tokens its last `own` ones see."""
    place_K = torch.arange(total, device=device)
    distance_R_K = place_K[total - own :, None] - place_K
    return (distance_R_K >= 0) & (distance_R_K < (total if window is None else window))
