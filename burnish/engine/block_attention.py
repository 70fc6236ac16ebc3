"""Attention of new tokens to blocks of keys and values: many rows of one token, and spans of several.

Rows. Each shelf is one product of its blocks with the queries of their readers. What a row gets from a block is the
largest score m, the sum s of exp(score - m) and the values weighted by these exponents, o; together, with M the
largest m, that is out = sum(exp(m - M) o) / sum(exp(m - M) s), over the row's blocks (Flash-Decoding's last step;
https://arxiv.org/abs/1805.02867, eq. 4). Nothing is padded but a row's last block, and the readers of a block to a
power of two.

Spans. Each attends to what its branch held before and, causally, to itself.

Covered: grouped key-value heads, sliding windows (blocks that are out of sight are read and masked).
"""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from burnish.engine.blocks import BLOCK, Block, Blocks

_NEVER = -1e30  # finite, so that a block that is masked whole gives no NaN


class Held(NamedTuple):
    """What takes part in a forward: a branch's blocks, with room for the new tokens, and how many tokens it held."""

    blocks: Sequence[Block]
    length: int
    num_new: int


class _Shelf(NamedTuple):
    """One shelf's units: who reads, and how far into its sequence the block lies."""

    width: int
    reader_U: Tensor
    first_U: Tensor


class _Part(NamedTuple):
    """What units get from their blocks: the largest score, the sum of exponents, and the values weighted by these."""

    most_U_H: Tensor
    sum_U_H: Tensor
    out_U_H_D: Tensor


class Arrangement(NamedTuple):
    """Index tensors of the rows. A *unit* is a block and one of its readers; U counts the units of all shelves.

    `unit_E` lists the units row by row, `start_B` says where a row's begin. `position_B` is where each row's new token
    stands, `places` where it is stored.
    """

    shelves: list[_Shelf]
    row_U: Tensor
    unit_E: Tensor
    start_B: Tensor
    position_B: Tensor
    places: tuple[Tensor, Tensor]

    def at(self, rows: Sequence[Held]) -> "Arrangement":
        """The same rows and blocks, with other positions."""
        device = self.row_U.device
        return self._replace(
            position_B=torch.tensor([row.length for row in rows], device=device),
            places=_places([(row.blocks[-1], row.length % BLOCK) for row in rows], device),
        )


class BlockLayout:
    """Rows first, then spans, packed into one row of tokens; see `burnish.models.attention.Layout`."""

    def __init__(self, blocks: Blocks, rows: Arrangement, spans: Sequence[Held], device: torch.device) -> None:
        self._blocks, self._device = blocks, device
        self._rows, self._spans = rows, spans
        self._span_places = _places(list(chain.from_iterable(map(_slots, spans))), device)
        self._pasts = [_past(span, device) for span in spans]
        self._row_masks: dict[int | None, list[Tensor | None]] = {}
        self._span_masks: dict[tuple[int, int | None], Tensor | None] = {}

    def attend(
        self, layer: int, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """See `burnish.models.attention.Layout`."""
        n = len(self._rows.position_B)
        outs: list[Tensor] = []
        if n:
            self._write(1, layer, self._rows.places, k_H_T_D[:, :n], v_H_T_D[:, :n])
            outs.append(self._attend_rows(layer, q_H_T_D[:, :n] * scale, window))
        if self._spans:
            self._write(0, layer, self._span_places, k_H_T_D[:, n:], v_H_T_D[:, n:])
        for index, span in enumerate(self._spans):
            new = slice(n, n + span.num_new)
            keys_H_S_D, values_H_S_D = self._with_past(index, layer, k_H_T_D[:, new], v_H_T_D[:, new])
            mask = self._span_mask(index, window)
            outs.append(
                functional.scaled_dot_product_attention(
                    q_H_T_D[None, :, new], keys_H_S_D[None], values_H_S_D[None],
                    attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True,
                )[0]
            )  # fmt: skip
            n += span.num_new
        if n < q_H_T_D.shape[1]:  # tokens that only fill up a product
            outs.append(outs[0].new_zeros(len(q_H_T_D), q_H_T_D.shape[1] - n, outs[0].shape[-1]))
        return torch.cat(outs, dim=1)

    def _write(self, width: int, layer: int, places: tuple[Tensor, Tensor], k_H_T_D: Tensor, v_H_T_D: Tensor) -> None:
        place_T, offset_T = places
        keys_N_K_S_D, values_N_K_S_D = self._blocks.of_layer(width, layer)
        num_tokens = len(place_T)
        keys_N_K_S_D[place_T, :, offset_T] = k_H_T_D[:, :num_tokens].transpose(0, 1)
        values_N_K_S_D[place_T, :, offset_T] = v_H_T_D[:, :num_tokens].transpose(0, 1)

    def _attend_rows(self, layer: int, q_H_B_D: Tensor, window: int | None) -> Tensor:
        rows = self._rows
        q_B_H_D = q_H_B_D.transpose(0, 1).contiguous()
        parts = [
            self._attend_shelf(shelf, layer, q_B_H_D, mask)
            for shelf, mask in zip(rows.shelves, self._row_mask(window), strict=True)
        ]
        most_U_H, sum_U_H, out_U_H_D = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        most_B_H = functional.embedding_bag(rows.unit_E, most_U_H, rows.start_B, mode="max")
        weight_U_H = most_U_H.sub_(most_B_H.index_select(0, rows.row_U)).exp_()
        sum_B_H = functional.embedding_bag(rows.unit_E, sum_U_H.mul_(weight_U_H), rows.start_B, mode="sum")
        weighted_U_HD = out_U_H_D.mul_(weight_U_H[:, :, None]).flatten(1)
        out_B_HD = functional.embedding_bag(rows.unit_E, weighted_U_HD, rows.start_B, mode="sum")
        out_B_H_D = out_B_HD.view(*sum_B_H.shape, -1).div_(sum_B_H[:, :, None])
        return out_B_H_D.transpose(0, 1).to(q_H_B_D.dtype)

    def _attend_shelf(self, shelf: _Shelf, layer: int, q_B_H_D: Tensor, mask: Tensor | None) -> _Part:
        """Attend of each reader of a block to that block alone."""
        n, width = self._blocks.num_places(shelf.width), shelf.width
        keys_N_K_S_D, values_N_K_S_D = (x[:n] for x in self._blocks.of_layer(width, layer))
        num_kv, num_heads = keys_N_K_S_D.shape[1], q_B_H_D.shape[1]
        num_repeats = num_heads // num_kv
        q_U_H_D = q_B_H_D.index_select(0, shelf.reader_U)
        if width > 1:
            q_U_H_D = q_U_H_D.view(n, width, num_kv, num_repeats, -1).transpose(1, 2)
        q_M_X_D = q_U_H_D.reshape(n * num_kv, width * num_repeats, -1)
        scores_M_X_S = torch.bmm(q_M_X_D, keys_N_K_S_D.flatten(0, 1).mT).float()
        if mask is not None:
            scores_M_X_S.view(n, num_kv, width, num_repeats, BLOCK).add_(mask)
        most_M_X_1 = scores_M_X_S.amax(-1, keepdim=True)
        weights_M_X_S = scores_M_X_S.sub_(most_M_X_1).exp_()
        sum_M_X_1 = weights_M_X_S.sum(-1, keepdim=True)
        out_M_X_D = torch.bmm(weights_M_X_S.to(values_N_K_S_D.dtype), values_N_K_S_D.flatten(0, 1)).float()
        if width > 1:
            most_M_X_1, sum_M_X_1, out_M_X_D = (
                x.view(n, num_kv, width, num_repeats, -1).transpose(1, 2) for x in (most_M_X_1, sum_M_X_1, out_M_X_D)
            )
        num_units = n * width
        return _Part(
            most_M_X_1.reshape(num_units, num_heads), sum_M_X_1.reshape(num_units, num_heads),
            out_M_X_D.reshape(num_units, num_heads, -1),
        )  # fmt: skip

    def _with_past(self, index: int, layer: int, k_H_T_D: Tensor, v_H_T_D: Tensor) -> tuple[Tensor, Tensor]:
        past = self._pasts[index]
        if past is None:
            return k_H_T_D, v_H_T_D
        length = self._spans[index].length
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for width, place_N in past.parts:
            keys_N_K_S_D, values_N_K_S_D = self._blocks.of_layer(width, layer)
            keys.append(keys_N_K_S_D.index_select(0, place_N))
            values.append(values_N_K_S_D.index_select(0, place_N))
        before = [torch.cat(x).index_select(0, past.order_N).transpose(0, 1).flatten(1, 2) for x in (keys, values)]
        return torch.cat([before[0][:, :length], k_H_T_D], dim=1), torch.cat([before[1][:, :length], v_H_T_D], dim=1)

    def _row_mask(self, window: int | None) -> list[Tensor | None]:
        """For each shelf what to add to scores `[N, K, W, R, S]`, nothing where all of it is seen."""
        if window not in self._row_masks:
            self._row_masks[window] = [_mask_of(self._rows, shelf, window) for shelf in self._rows.shelves]
        return self._row_masks[window]

    def _span_mask(self, index: int, window: int | None) -> Tensor | None:
        """Which keys each new token of a span sees; None is plain causal attention without a past."""
        key = (index, window)
        if key not in self._span_masks:
            _, length, num_new = self._spans[index]
            is_wide = window is None or length + num_new <= window
            self._span_masks[key] = None if is_wide and not length else _seen(length, num_new, window, self._device)
        return self._span_masks[key]


class _Past(NamedTuple):
    """Where a span's earlier blocks lie: places by shelf, and how to put them in order."""

    parts: list[tuple[int, Tensor]]
    order_N: Tensor


def arrange(blocks: Blocks, rows: Sequence[Sequence[Block]], device: torch.device) -> Arrangement:
    """Give each (block, reader) its unit, and each row its units; positions are still to be told."""
    widths = blocks.widths() if rows else []
    sizes = [blocks.num_places(width) * width for width in widths]
    base = dict(zip(widths, accumulate(sizes, initial=0), strict=False))
    row_U, first_U, num_placed = ([0] * sum(sizes) for _ in range(3))
    unit_E: list[int] = []
    start_B: list[int] = []
    for row, mine in enumerate(rows):
        start_B.append(len(unit_E))
        for number, block in enumerate(mine):
            first = base[block.shelf] + block.place * block.shelf
            unit = first + num_placed[first]
            num_placed[first] += 1
            row_U[unit], first_U[unit] = row, number * BLOCK
            unit_E.append(unit)
    index = torch.tensor([row_U, first_U], dtype=torch.long, device=device)
    shelves = [
        _Shelf(width, *index[:, base[width] : base[width] + size]) for width, size in zip(widths, sizes, strict=True)
    ]
    unit_E_, start_B_ = (torch.tensor(x, dtype=torch.long, device=device) for x in (unit_E, start_B))
    nowhere = torch.empty(0, dtype=torch.long, device=device)
    return Arrangement(shelves, index[0], unit_E_, start_B_, nowhere, (nowhere, nowhere))


def _mask_of(rows: Arrangement, shelf: _Shelf, window: int | None) -> Tensor | None:
    if shelf.width > 1 and (window is None or int(rows.position_B.max()) < window):
        return None  # shared blocks are full
    offset_S = torch.arange(BLOCK, device=shelf.reader_U.device)
    distance_U_S = (rows.position_B[shelf.reader_U] - shelf.first_U)[:, None] - offset_S
    is_unseen_U_S = distance_U_S < 0 if window is None else (distance_U_S < 0) | (distance_U_S >= window)
    return (is_unseen_U_S * _NEVER).view(-1, 1, shelf.width, 1, BLOCK)


def _seen(length: int, num_new: int, window: int | None, device: torch.device) -> Tensor:
    distance_T_S = (
        length + torch.arange(num_new, device=device)[:, None] - torch.arange(length + num_new, device=device)
    )
    return distance_T_S >= 0 if window is None else (distance_T_S >= 0) & (distance_T_S < window)


def _slots(held: Held) -> list[tuple[Block, int]]:
    """Where a span's new tokens go."""
    return [(held.blocks[i // BLOCK], i % BLOCK) for i in range(held.length, held.length + held.num_new)]


def _places(slots: Sequence[tuple[Block, int]], device: torch.device) -> tuple[Tensor, Tensor]:
    place_T = torch.tensor([block.place for block, _ in slots], dtype=torch.long, device=device)
    return place_T, torch.tensor([offset for _, offset in slots], dtype=torch.long, device=device)


def _past(held: Held, device: torch.device) -> _Past | None:
    if not held.length:
        return None
    blocks = held.blocks[: -(-held.length // BLOCK)]
    by_shelf: dict[int, list[int]] = {}
    for index, block in enumerate(blocks):
        by_shelf.setdefault(block.shelf, []).append(index)
    parts = [
        (width, torch.tensor([blocks[index].place for index in indices], device=device))
        for width, indices in by_shelf.items()
    ]
    order = torch.tensor(list(chain.from_iterable(by_shelf.values())), device=device).argsort()
    return _Past(parts, order)
