"""The decode path that runs any model: transformers' own layers, with attention over blocks of keys and values.

All new tokens go through the layers as one packed row: first the rows that decode one token each, then spans of
prompts. With `exact` each product has a shape that does not depend on what else is under way: rows go in packs of 16
(one by one where a row of a product depends on the rows beside it, which is tried out once), spans one by one.

Weights are the learner's own, so there is nothing to take over when they change. Covered: several LoRA adapters (see
`adapters`); what `models.attention` covers. Not covered: layers that keep a state instead of keys and values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.engine.adapters import Adapter, Adapters, segments_of
from burnish.engine.block_attention import Arrangement, BlockLayout, Held, arrange
from burnish.engine.blocks import BLOCK, Block, Blocks, LayerShape, num_blocks_within
from burnish.engine.params import SamplingParams
from burnish.engine.sampler import Draw, draw
from burnish.engine.steps import Work
from burnish.models.forward import hidden_states, logits

_EXACT_ROWS = 16


@dataclass(slots=True, eq=False)
class _Branch:
    """A sequence: its blocks, the last of which may be partly filled."""

    blocks: list[Block]
    length: int
    adapter: str | None
    is_read: bool = False


class TorchSteps:
    """See `burnish.engine.steps.Steps`."""

    def __init__(self, model: PreTrainedModel, *, memory_mb: int, exact: bool = False) -> None:
        self._model, self._exact = model, exact
        self._adapters = Adapters(model)
        shapes = _layer_shapes(model)
        num_blocks = num_blocks_within((memory_mb << 20) // (BLOCK * _bytes_a_token(shapes, model.dtype)))
        if num_blocks < 1:
            raise ConfigError(
                f"engine.kv_memory_mb is {memory_mb}, and {BLOCK} tokens of this model take "
                f"{BLOCK * _bytes_a_token(shapes, model.dtype) / 2**20:.2g} MiB, of which there is to be room for 4 at "
                "least; raise it"
            )
        self._blocks = Blocks(shapes, num_blocks=num_blocks, dtype=model.dtype, device=model.device)
        self._branches: dict[int, _Branch] = {}
        self._reading: list[_Branch] = []
        self._num_opened = 0
        self._arranged, self._mark = arrange(self._blocks, [], model.device), (-1, list[int]())
        self._pack_rows = 0 if not exact else _EXACT_ROWS if _rows_are_independent(model) else 1

    @property
    def capacity(self) -> int:
        """See `Steps`."""
        return self._blocks.num_blocks * BLOCK

    def open(self, parent: int | None = None, length: int | None = None, *, adapter: str | None = None) -> int:
        """See `Steps`. A block that the parent and the fork would both fill is copied when it comes to that."""
        branch = _Branch([], 0, adapter)
        if parent is not None:
            held = self._branches[parent]
            branch.length = held.length if length is None else length
            branch.blocks = held.blocks[: -(-branch.length // BLOCK)]
            for block in branch.blocks:
                block.num_owners += 1
        self._num_opened += 1
        self._branches[self._num_opened] = branch
        return self._num_opened

    def put_adapter(self, name: str, adapter: Adapter) -> None:
        """See `Steps`."""
        self._adapters.put(name, adapter)

    def drop(self, branch: int) -> None:
        """See `Steps`."""
        dropped = self._branches.pop(branch)
        if dropped.is_read:
            self._read([other for other in self._reading if other is not dropped])
        for block in dropped.blocks:
            self._blocks.disown(block)

    def fits(self, work: Sequence[Work]) -> bool:
        """See `Steps`."""
        return sum(self._num_blocks_needed(w) for w in work) <= self._blocks.num_free

    @torch.inference_mode()
    def feed(self, work: Sequence[Work], *, every_token: bool = False) -> Tensor:
        """See `Steps`."""
        branches = [self._branches[w.branch] for w in work]
        rows = [i for i, w in enumerate(work) if len(w.token_ids) == 1 and branches[i].length > 0]
        rows.sort(key=lambda i: branches[i].adapter or "")
        self._read([] if self._exact else [branches[i] for i in rows])
        held = [self._extend(branch, len(w.token_ids)) for branch, w in zip(branches, work, strict=True)]
        self._blocks.settle()
        is_row = set(rows)
        spans = [i for i in range(len(work)) if i not in is_row]
        if not self._exact:
            hidden_T_D = self._forward(work, held, rows, spans, 0)
            return _in_order(hidden_T_D, work, [*rows, *spans], every_token)
        packs = [*self._packs(rows, branches), *([i] for i in spans)]
        fills = [self._pack_rows if is_row.issuperset(pack) else 0 for pack in packs]
        hidden = [self._forward(work, held, [], pack, fill) for pack, fill in zip(packs, fills, strict=True)]
        return _in_order(torch.cat(hidden), work, [i for pack in packs for i in pack], every_token)

    @torch.inference_mode()
    def logits(self, hidden_N_D: Tensor) -> Tensor:
        """See `Steps`."""
        if not self._exact:
            return logits(self._model, hidden_N_D)
        packs = hidden_N_D.split(self._pack_rows)
        return torch.cat([logits(self._model, _padded(pack, self._pack_rows))[: len(pack)] for pack in packs])

    @torch.inference_mode()
    def draw(self, hidden_N_D: Tensor, temperatures_N: Tensor, uniforms_N: Tensor) -> Draw:
        """See `Steps`."""
        logits_N_V = self.logits(hidden_N_D)
        uniforms_N = uniforms_N.to(logits_N_V.device)
        kinds = {t: SamplingParams(temperature=t) for t in sorted(set(temperatures_N.tolist()))}
        if len(kinds) == 1:
            return draw(logits_N_V, next(iter(kinds.values())), uniforms_N)
        drawn = Draw(uniforms_N.long(), torch.empty_like(uniforms_N))
        for temperature, params in kinds.items():
            mine_M = (temperatures_N == temperature).nonzero()[:, 0].to(uniforms_N.device)
            drawn_M = draw(logits_N_V[mine_M], params, uniforms_N[mine_M])
            drawn.token_ids_B[mine_M], drawn.logprobs_B[mine_M] = drawn_M
        return drawn

    def refresh(self) -> None:
        """See `Steps`: the weights are shared."""

    def _forward(
        self, work: Sequence[Work], held: Sequence[Held], rows: Sequence[int], spans: Sequence[int], num_rows: int
    ) -> Tensor:
        """Run rows and spans through the body, filled up to `num_rows` tokens; returns `[T, D]` of the real ones."""
        token_ids = [i for index in (*rows, *spans) for i in work[index].token_ids]
        positions = [p for i in (*rows, *spans) for p in range(held[i].length, held[i].length + held[i].num_new)]
        device = self._model.device
        layout = BlockLayout(self._blocks, self._arrangement(work, held, rows), [held[i] for i in spans], device)
        num_added = max(0, num_rows - len(token_ids))
        used = [self._branches[work[i].branch].adapter for i in (*rows, *spans)]
        with self._adapters.applied(segments_of(used, [held[i].num_new for i in (*rows, *spans)], num_added)):
            hidden_T_D = hidden_states(
                self._model,
                torch.tensor(token_ids + [0] * num_added, device=device),
                torch.tensor(positions + [0] * num_added, device=device),
                layout,
            )
        return hidden_T_D[: len(token_ids)]

    def _packs(self, rows: Sequence[int], branches: Sequence[_Branch]) -> Iterator[Sequence[int]]:
        """Rows of one adapter, so many at a time as a product has with `exact`."""
        for _, mine in groupby(rows, key=lambda i: branches[i].adapter):
            same = list(mine)
            yield from (same[i : i + self._pack_rows] for i in range(0, len(same), self._pack_rows))

    def _arrangement(self, work: Sequence[Work], held: Sequence[Held], rows: Sequence[int]) -> Arrangement:
        """Which rows read which blocks: as for the last forward, unless rows or blocks came or went."""
        mark = (self._blocks.revision, [work[i].branch for i in rows])
        if mark != self._mark:
            self._arranged = arrange(self._blocks, [held[i].blocks for i in rows], self._model.device)
            self._mark = mark
        return self._arranged.at([held[i] for i in rows])

    def _extend(self, branch: _Branch, num_new: int) -> Held:
        """Have blocks of its own for a branch's new tokens."""
        length = branch.length
        if length % BLOCK and branch.blocks[-1].num_owners > 1:
            shared = branch.blocks.pop()
            branch.blocks.append(self._blocks.copy(shared))
            if branch.is_read:
                self._blocks.read(shared, -1)
                self._blocks.read(branch.blocks[-1], 1)
        while len(branch.blocks) * BLOCK < length + num_new:
            branch.blocks.append(self._blocks.take())
            if branch.is_read:
                self._blocks.read(branch.blocks[-1], 1)
        branch.length += num_new
        return Held(branch.blocks, length, num_new)

    def _read(self, branches: list[_Branch]) -> None:
        """From now on these are the branches that rows decode from."""
        reading = set(map(id, branches))
        for branch in self._reading:
            if id(branch) not in reading:
                self._change_readers(branch, -1)
        for branch in branches:
            if not branch.is_read:
                self._change_readers(branch, 1)
        self._reading = branches

    def _change_readers(self, branch: _Branch, change: int) -> None:
        branch.is_read = change > 0
        for block in branch.blocks:
            self._blocks.read(block, change)

    def _num_blocks_needed(self, work: Work) -> int:
        branch = self._branches[work.branch]
        has_shared_tail = branch.length % BLOCK > 0 and branch.blocks[-1].num_owners > 1
        return -(-(branch.length + len(work.token_ids)) // BLOCK) - len(branch.blocks) + has_shared_tail


class _Alone:
    """Each token sees itself alone; notes what each layer stores."""

    def __init__(self) -> None:
        self.shapes: dict[int, LayerShape] = {}

    def attend(
        self, layer: int, q_H_T_D: Tensor, k_H_T_D: Tensor, v_H_T_D: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """See `burnish.models.attention.Layout`."""
        num_kv = len(k_H_T_D)
        self.shapes[layer] = LayerShape(num_kv, k_H_T_D.shape[-1], v_H_T_D.shape[-1])
        return v_H_T_D.repeat_interleave(len(q_H_T_D) // num_kv, dim=0)


@torch.inference_mode()
def _layer_shapes(model: PreTrainedModel) -> dict[int, LayerShape]:
    probe = _Alone()
    zero_1 = torch.zeros(1, dtype=torch.long, device=model.device)
    hidden_states(model, zero_1, zero_1, probe)
    return probe.shapes


@torch.inference_mode()
def _rows_are_independent(model: PreTrainedModel) -> bool:
    """Whether 16 rows give the same bits in any order, tried out on a few orders."""
    ids_T = torch.arange(_EXACT_ROWS, device=model.device)
    zeros_T = torch.zeros_like(ids_T)
    expected_T_V = logits(model, hidden_states(model, ids_T, zeros_T, _Alone()))
    for order_T in (ids_T.roll(1), ids_T.roll(7), ids_T.flip(0)):
        got_T_V = logits(model, hidden_states(model, order_T, zeros_T, _Alone()))
        if not torch.equal(got_T_V, expected_T_V[order_T]):
            return False
    return True


def _bytes_a_token(shapes: dict[int, LayerShape], dtype: torch.dtype) -> int:
    return sum(s.num_kv * (s.key_width + s.value_width) for s in shapes.values()) * dtype.itemsize


def _padded(x_N_D: Tensor, num_rows: int) -> Tensor:
    return torch.cat([x_N_D, x_N_D.new_zeros(num_rows - len(x_N_D), x_N_D.shape[-1])])


def _in_order(hidden_T_D: Tensor, work: Sequence[Work], order: Sequence[int], every_token: bool) -> Tensor:
    """From the order of a forward to that of the work: each one's last token, or all."""
    if len(hidden_T_D) == len(work) and list(order) == list(range(len(work))):
        return hidden_T_D
    ends = torch.tensor([len(work[index].token_ids) for index in order]).cumsum(0).tolist()
    end_of = dict(zip(order, ends, strict=True))
    wanted: list[int] = []
    for index, (_, token_ids) in enumerate(work):
        wanted += range(end_of[index] - (len(token_ids) if every_token else 1), end_of[index])
    return hidden_T_D[torch.tensor(wanted, device=hidden_T_D.device)]
