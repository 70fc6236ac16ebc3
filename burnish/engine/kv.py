"""Keys and values of a wave: stored once a prompt, shared by its samples, and grown a token at a time.

`PrefillLayout` runs the prompts packed and collects their keys and values. `DecodeLayout` then serves one new
token of each row at a time. All rows of a wave are of one age, so that what they generated needs no mask and no
padding; only prompts are padded, to the longest of the wave.

Covered: grouped key-value heads, sliding windows. Not covered: layers that share keys and values.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from burnish.models.attention import Block, PackedLayout, Span

_GROWTH_TOKENS = 32


class PrefillLayout:
    """Prompts laid end to end; remembers each layer's keys and values as `[P, Hkv, Tp, D]`."""

    def __init__(self, lengths: Sequence[int], longest: int) -> None:
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        self._packed = PackedLayout([Block(Span(s, n)) for s, n in zip(starts, lengths, strict=True)])
        last_P = torch.tensor(lengths)[:, None] - 1
        self._index_P_T = torch.tensor(starts)[:, None] + torch.minimum(torch.arange(longest), last_P)
        self.keys_L: list[Tensor] = []
        self.values_L: list[Tensor] = []

    def attend(
        self, layer: int, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """See `burnish.models.attention.Layout`."""
        assert layer == len(self.keys_L)
        self.keys_L.append(k_H_T_D[:, self._index_P_T].transpose(0, 1).contiguous())
        self.values_L.append(v_H_T_D[:, self._index_P_T].transpose(0, 1).contiguous())
        return self._packed.attend(layer, q_H_T_D, k_H_T_D, v_H_T_D, scale, window)


class DecodeLayout:
    """One new token of each row against its prompt and what the row has generated.

    Rows of one prompt meet its keys in one product: they are laid out in a grid of `[P, G]` slots, where G is the
    most rows that a prompt has; slots without a row compute nothing that is read.
    """

    def __init__(
        self, keys_L: list[Tensor], values_L: list[Tensor], lengths: Sequence[int], prompt_of_row: Sequence[int]
    ) -> None:
        self._prefix_keys_L, self._prefix_values_L = keys_L, values_L
        self._own_keys_L: list[Tensor] = []
        self._own_values_L: list[Tensor] = []
        self._lengths, self._prompt_of_row = list(lengths), list(prompt_of_row)
        self._age = -1
        self._arrange()

    @property
    def num_rows(self) -> int:
        """How many rows are decoded."""
        return len(self._prompt_of_row)

    def begin_token(self) -> Tensor:
        """Make room for one more token of each row; returns the positions of these tokens."""
        self._age += 1
        self._masks: dict[int | None, Tensor | None] = {}
        return self._length_B + self._age

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all rows but these, and the prompts that no row is left of."""
        device = self._length_B.device
        rows_B = torch.tensor(rows, device=device)
        self._own_keys_L = [x.index_select(0, rows_B) for x in self._own_keys_L]
        self._own_values_L = [x.index_select(0, rows_B) for x in self._own_values_L]
        prompts = sorted({self._prompt_of_row[row] for row in rows})
        if len(prompts) < len(self._lengths):
            prompts_P = torch.tensor(prompts, device=device)
            self._prefix_keys_L = [x.index_select(0, prompts_P) for x in self._prefix_keys_L]
            self._prefix_values_L = [x.index_select(0, prompts_P) for x in self._prefix_values_L]
        self._lengths = [self._lengths[prompt] for prompt in prompts]
        self._prompt_of_row = [prompts.index(self._prompt_of_row[row]) for row in rows]
        self._arrange()

    def attend(
        self, layer: int, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """See `burnish.models.attention.Layout`; T is one token of each row."""
        num_heads, num_rows, width = q_H_T_D.shape
        num_kv = k_H_T_D.shape[0]
        first = 0 if window is None else max(0, self._age + 1 - window)
        own_keys_N_S_D = self._append(self._own_keys_L, layer, k_H_T_D)[:, first:]
        own_values_N_S_D = self._append(self._own_values_L, layer, v_H_T_D)[:, first:]
        q_B_K_R_D = (q_H_T_D * scale).view(num_kv, -1, num_rows, width).permute(2, 0, 1, 3)

        prefix_B_H_T = self._from_grid(
            torch.bmm(self._to_grid(q_B_K_R_D), self._flat(self._prefix_keys_L[layer]).mT), num_kv
        )
        own_N_R_S = torch.bmm(q_B_K_R_D.reshape(num_rows * num_kv, -1, width), own_keys_N_S_D.mT)
        mask_B_T = self._mask(window)
        if mask_B_T is not None:
            prefix_B_H_T = prefix_B_H_T + mask_B_T[:, None]
        scores_B_H_S = torch.cat([prefix_B_H_T, own_N_R_S.view(num_rows, num_heads, -1)], dim=-1)
        weights_B_H_S = torch.softmax(scores_B_H_S, dim=-1, dtype=torch.float32).to(q_H_T_D.dtype)

        longest = prefix_B_H_T.shape[-1]
        on_prefix_B_K_R_T = weights_B_H_S[..., :longest].view(num_rows, num_kv, -1, longest)
        on_own_N_R_S = weights_B_H_S[..., longest:].reshape(num_rows * num_kv, num_heads // num_kv, -1)
        values_P_T_D = self._flat(self._prefix_values_L[layer])
        out_B_H_D = self._from_grid(torch.bmm(self._to_grid(on_prefix_B_K_R_T), values_P_T_D), num_kv)
        out_B_H_D = out_B_H_D + torch.bmm(on_own_N_R_S, own_values_N_S_D).view(num_rows, num_heads, width)
        return out_B_H_D.transpose(0, 1)

    def _arrange(self) -> None:
        """Give each row its slot in the grid."""
        device = self._prefix_keys_L[0].device
        counts = [0] * len(self._lengths)
        places: list[tuple[int, int]] = []
        for prompt in self._prompt_of_row:
            places.append((prompt, counts[prompt]))
            counts[prompt] += 1
        self._group = max(counts)
        slots = [prompt * self._group + place for prompt, place in places]
        row_of_slot = [0] * (len(counts) * self._group)
        for row, slot in enumerate(slots):
            row_of_slot[slot] = row
        in_order = slots == list(range(len(row_of_slot)))
        self._slot_B = None if in_order else torch.tensor(slots, device=device)
        self._row_of_slot = None if in_order else torch.tensor(row_of_slot, device=device)
        self._length_B = torch.tensor([self._lengths[prompt] for prompt in self._prompt_of_row], device=device)

    def _to_grid(self, x_B_K_R_D: Tensor) -> Tensor:
        """Rows to `[P * K, G * R, D]`."""
        num_repeats, width = x_B_K_R_D.shape[2:]
        if self._row_of_slot is not None:
            x_B_K_R_D = x_B_K_R_D.index_select(0, self._row_of_slot)
        x_P_G_K_R_D = x_B_K_R_D.unflatten(0, (-1, self._group))
        return x_P_G_K_R_D.transpose(1, 2).reshape(-1, self._group * num_repeats, width)

    def _from_grid(self, x_N_M_D: Tensor, num_kv: int) -> Tensor:
        """The inverse of `_to_grid`, with heads flat: `[B, H, D]`."""
        x_P_K_G_R_D = x_N_M_D.view(len(self._lengths), num_kv, self._group, -1, x_N_M_D.shape[-1])
        x_B_H_D = x_P_K_G_R_D.transpose(1, 2).flatten(0, 1).flatten(1, 2)
        return x_B_H_D if self._slot_B is None else x_B_H_D.index_select(0, self._slot_B)

    def _flat(self, x_P_K_T_D: Tensor) -> Tensor:
        return x_P_K_T_D.flatten(0, 1)

    def _append(self, store_L: list[Tensor], layer: int, x_K_B_D: Tensor) -> Tensor:
        """Store one token of each row; returns all so far as `[B * K, S, D]`."""
        if layer == len(store_L):
            num_kv, num_rows, width = x_K_B_D.shape
            store_L.append(x_K_B_D.new_empty(num_rows, num_kv, _GROWTH_TOKENS, width))
        if self._age == store_L[layer].shape[2]:
            room = torch.empty_like(store_L[layer][:, :, :_GROWTH_TOKENS])
            store_L[layer] = torch.cat([store_L[layer], room], dim=2)
        store_L[layer][:, :, self._age] = x_K_B_D.transpose(0, 1)
        return store_L[layer].flatten(0, 1)[:, : self._age + 1]

    def _mask(self, window: int | None) -> Tensor | None:
        """What to add to the scores on prompts: nothing where all are of one length and none is too far back."""
        if window not in self._masks:
            self._masks[window] = self._make_mask(window)
        return self._masks[window]

    def _make_mask(self, window: int | None) -> Tensor | None:
        longest = self._prefix_keys_L[0].shape[2]
        too_far = window is not None and longest + self._age >= window
        if not too_far and min(self._lengths) == longest:
            return None
        place_T = torch.arange(longest, device=self._length_B.device)
        visible_B_T = place_T < self._length_B[:, None]
        if window is not None:
            visible_B_T &= self._length_B[:, None] + self._age - place_T < window
        return torch.zeros_like(visible_B_T, dtype=torch.float32).masked_fill_(~visible_B_T, -torch.inf)
