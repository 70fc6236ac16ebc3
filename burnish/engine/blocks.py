"""Keys and values in blocks of 32 tokens, kept on shelves by how many rows read them.

Rows that share a prompt read its blocks together. A block that up to w rows read lies on shelf w (0, 1, 2, 4, 8, ...),
close to the others there, so that one product a shelf serves all its blocks and all their readers, and no key is
copied to be read. A block moves when its number of readers passes a power of two. Shelf 0 is for blocks that no row
decodes from: kept prefixes, and prompts under way.

Covered: layers of different shapes, any device. Memory: all shelves together have `num_rooms` rooms at most, also while
blocks move, which is an eighth (and 2) more than there are blocks. Within that a shelf grows by a quarter beyond what
it needs, and has room for at most twice as much (and 8 blocks); the rest is given back. Each layer has tensors of its
own, so that a shelf that grows holds no more than one of them twice, the only thing that comes on top.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 32


class LayerShape(NamedTuple):
    """What a layer stores of a token."""

    num_kv: int
    key_width: int
    value_width: int


@dataclass(slots=True, eq=False)
class Block:
    """Where 32 tokens lie. `num_owners` branches hold it, `num_readers` rows decode from it."""

    shelf: int
    place: int
    num_owners: int = 1
    num_readers: int = 0


class Copy(NamedTuple):
    """What a block holds is to be copied into another."""

    source: Block
    target: Block


class _Shelf:
    """Places side by side; those not taken are holes."""

    def __init__(self, shapes: Mapping[int, LayerShape], dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._sizes = {
            (layer, part): (shape.num_kv, BLOCK, width)
            for layer, shape in shapes.items()
            for part, width in enumerate((shape.key_width, shape.value_width))
        }
        self.num_rooms = 0  # for so many places there are tensors
        self.blocks: list[Block | None] = []
        self.holes: list[int] = []
        self._tensors: dict[tuple[int, int], Tensor] = {}

    def of_layer(self, layer: int) -> tuple[Tensor, Tensor]:
        """A layer's keys and values, `[places, K, BLOCK, width]`."""
        return self._tensors[layer, 0], self._tensors[layer, 1]

    def put(self, block: Block) -> int:
        """Give a block a place, a hole if there is one."""
        if self.holes:
            place = self.holes.pop()
            self.blocks[place] = block
            return place
        self.blocks.append(block)
        return len(self.blocks) - 1

    def take_away(self, place: int) -> None:
        """Leave a hole."""
        self.blocks[place] = None
        self.holes.append(place)

    def trim(self) -> None:
        """Drop holes at the end."""
        while self.blocks and self.blocks[-1] is None:
            self.blocks.pop()
        self.holes = [place for place in self.holes if place < len(self.blocks)]

    def resize(self, num_rooms: int) -> None:
        """Have tensors for so many places; one after another, so that no more than one is there twice."""
        self.num_rooms = num_rooms
        if not num_rooms:
            self._tensors = {}
            return
        for place in self._sizes:
            self._tensors[place] = self._resized(place)

    def _resized(self, place: tuple[int, int]) -> Tensor:
        # Zeros, since what lies beyond a block's tokens is multiplied by weight 0, and 0 times NaN is NaN.
        new_N_K_S_D = torch.zeros(self.num_rooms, *self._sizes[place], dtype=self._dtype, device=self._device)
        if place in self._tensors:
            kept_N_K_S_D = self._tensors[place][: self.num_rooms]
            new_N_K_S_D[: len(kept_N_K_S_D)] = kept_N_K_S_D
        return new_N_K_S_D


def num_blocks_within(num_rooms: int) -> int:
    """How many blocks may be held where there is memory for so many rooms."""
    return max(0, (num_rooms - 2) * 8 // 9)


class Blocks:
    """All shelves. What is taken and let go is settled, in one go, before the next forward.

    `revision` rises with each change of what lies where or who reads it.
    """

    def __init__(
        self, shapes: Mapping[int, LayerShape], *, num_blocks: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self.num_rooms = num_blocks + num_blocks // 8 + 2
        self.revision = 0
        self._layers = tuple(shapes)
        self._new_shelf = lambda: _Shelf(shapes, dtype, device)
        self._shelves: dict[int, _Shelf] = {}
        self._to_move: dict[Block, None] = {}
        self._to_copy: list[Copy] = []

    def widths(self) -> list[int]:
        """The shelves that rows decode from."""
        return sorted(width for width, shelf in self._shelves.items() if width and shelf.blocks)

    def num_places(self, width: int) -> int:
        """How many blocks lie on a shelf."""
        return len(self._shelves[width].blocks)

    def of_layer(self, width: int, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer on a shelf, `[places, K, BLOCK, width]`; places beyond the last block are free."""
        return self._shelves[width].of_layer(layer)

    def take(self) -> Block:
        """A new block that nobody reads yet."""
        assert self.num_free > 0
        self.num_free -= 1
        self.revision += 1
        block = Block(0, -1)
        block.place = self._shelf(0).put(block)
        return block

    def disown(self, block: Block) -> None:
        """One branch less holds it."""
        block.num_owners -= 1
        if not block.num_owners:
            self.revision += 1
            assert not block.num_readers
            self.num_free += 1
            self._to_move.pop(block, None)
            self._shelves[block.shelf].take_away(block.place)

    def copy(self, source: Block) -> Block:
        """A new block with what another holds, for one of its owners."""
        block = self.take()
        self._to_copy.append(Copy(source, block))
        source.num_owners -= 1
        return block

    def read(self, block: Block, change: int) -> None:
        """So many more rows decode from it."""
        block.num_readers += change
        self.revision += 1
        self._to_move[block] = None

    def settle(self) -> None:
        """Move each block to its shelf, and close the holes on those that rows decode from."""
        for shelf in self._shelves.values():
            self._have_rooms(shelf)
        self._copy_all(self._to_copy)
        self._to_copy = []
        for (old, new), pairs in groupby(sorted((b.shelf, _width(b)) for b in self._to_move)):
            del pairs
            if old != new:
                self._move([b for b in self._to_move if (b.shelf, _width(b)) == (old, new)], new)
        self._to_move = {}
        for width, shelf in self._shelves.items():
            shelf.trim()
            if width or 2 * len(shelf.holes) > len(shelf.blocks):
                self._close_holes(shelf)
            if shelf.num_rooms > 2 * len(shelf.blocks) + 8 or not shelf.blocks:
                shelf.resize(len(shelf.blocks) + len(shelf.blocks) // 4)

    def _shelf(self, width: int) -> _Shelf:
        if width not in self._shelves:
            self._shelves[width] = self._new_shelf()
        return self._shelves[width]

    def _have_rooms(self, shelf: _Shelf, num_more: int = 0) -> None:
        """Have tensors for all places of a shelf and some more; where rooms are short, the others give theirs back."""
        num_needed = len(shelf.blocks) + max(0, num_more - len(shelf.holes))
        if num_needed <= shelf.num_rooms:
            return
        others = [other for other in self._shelves.values() if other is not shelf]
        if num_needed + sum(other.num_rooms for other in others) > self.num_rooms:
            for other in others:
                self._close_holes(other)
                other.resize(len(other.blocks))
        num_left = self.num_rooms - num_needed - sum(other.num_rooms for other in others)
        assert num_left >= 0, "more rooms than there is memory for"
        shelf.resize(num_needed + min(num_needed // 4 + 4, num_left))

    def _move(self, blocks: Sequence[Block], width: int) -> None:
        """Move blocks of one shelf to another, so many at a time as there are rooms for both of each."""
        num_at_once = self.num_rooms - (self.num_blocks - self.num_free)
        for start in range(0, len(blocks), num_at_once):
            some = blocks[start : start + num_at_once]
            self._have_rooms(self._shelf(width), len(some))
            copies: list[Copy] = []
            for block in some:
                old = Block(block.shelf, block.place)
                block.shelf, block.place = width, self._shelf(width).put(block)
                copies.append(Copy(old, block))
            self._copy_all(copies)
            for old, _ in copies:
                self._shelves[old.shelf].take_away(old.place)

    def _close_holes(self, shelf: _Shelf) -> None:
        copies: list[Copy] = []
        for place in sorted(shelf.holes):
            while shelf.blocks and shelf.blocks[-1] is None:
                shelf.blocks.pop()
            if place >= len(shelf.blocks):
                break
            block = shelf.blocks.pop()
            assert block is not None
            old = Block(block.shelf, block.place)
            block.place = place
            shelf.blocks[place] = block
            copies.append(Copy(old, block))
        shelf.holes = []
        self._copy_all(copies)

    def _copy_all(self, copies: Iterable[Copy]) -> None:
        def shelves(copy: Copy) -> tuple[int, int]:
            return copy.source.shelf, copy.target.shelf

        for (old, new), same in groupby(sorted(copies, key=shelves), key=shelves):
            pairs = [(source.place, target.place) for source, target in same]
            sources_N, targets_N = torch.tensor(pairs).T
            source, target = self._shelves[old], self._shelves[new]
            for layer in self._layers:
                for olds_N, news_N in zip(source.of_layer(layer), target.of_layer(layer), strict=True):
                    news_N[targets_N] = olds_N[sources_N]


def _width(block: Block) -> int:
    """The shelf for its readers: 0, or the power of two that is enough."""
    return 0 if not block.num_readers else 1 << (block.num_readers - 1).bit_length()
