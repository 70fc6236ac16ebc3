"""Blocks keep what they hold wherever they move, and lie close on the shelf for their readers."""

from random import Random

import pytest
import torch

from burnish.engine.blocks import Block, Blocks, LayerShape

SHAPES = {0: LayerShape(2, 4, 4), 3: LayerShape(1, 8, 2), 5: LayerShape(2, 4, 4)}


def _blocks(num_blocks: int = 200) -> Blocks:
    return Blocks(SHAPES, num_blocks=num_blocks, dtype=torch.float32, device=torch.device("cpu"))


def _write(blocks: Blocks, block: Block, value: float) -> None:
    for layer in SHAPES:
        keys_N, values_N = blocks.of_layer(block.shelf, layer)
        keys_N[block.place], values_N[block.place] = value + layer, -value - layer


def _holds(blocks: Blocks, block: Block, value: float) -> bool:
    return all(
        bool((keys_N[block.place] == value + layer).all() and (values_N[block.place] == -value - layer).all())
        for layer in SHAPES
        for keys_N, values_N in [blocks.of_layer(block.shelf, layer)]
    )


@pytest.mark.parametrize("seed", range(5))
def test_blocks_keep_what_they_hold_and_lie_by_their_readers(seed: int):
    random, blocks = Random(seed), _blocks()
    held: dict[Block, float] = {}
    for value in range(30):
        for _ in range(random.randrange(6)):
            held[blocks.take()] = -1.0
        blocks.settle()
        for block in [block for block, kept in held.items() if kept == -1.0]:
            held[block] = 1000.0 * value + len(held)
            _write(blocks, block, held[block])
        for block in random.sample(list(held), len(held) // 2):
            blocks.read(block, random.randrange(-block.num_readers, 6))
        for block in random.sample(list(held), len(held) // 5):
            blocks.read(block, -block.num_readers)
            blocks.disown(block)
            del held[block]
        for block in random.sample(list(held), min(2, len(held))):
            block.num_owners += 1
            held[blocks.copy(block)] = held[block]
        blocks.settle()
        assert all(_holds(blocks, block, kept) for block, kept in held.items())
        assert all(block.num_readers <= block.shelf < max(1, 2 * block.num_readers) for block in held)
        for width in blocks.widths():
            assert sorted(b.place for b in held if b.shelf == width) == list(range(blocks.num_places(width)))
        assert blocks.num_free == 200 - len(held)


def test_shelves_that_blocks_have_left_keep_no_more_than_twice_what_they_hold():
    """One block stays on each shelf, on the first the last one."""
    blocks = _blocks()
    held = {blocks.take(): float(value) for value in range(200)}
    blocks.settle()
    moving = list(held)
    for block, value in held.items():
        _write(blocks, block, value)
    for change in (1, 1, 2, 4):
        moving.pop()
        for block in moving:
            blocks.read(block, change)
        blocks.settle()
        rooms = [len(blocks.of_layer(width, 0)[0]) for width in (0, *blocks.widths())]
        assert sum(rooms) <= 2 * 200 + 8 * len(rooms)
        assert all(_holds(blocks, block, value) for block, value in held.items())
