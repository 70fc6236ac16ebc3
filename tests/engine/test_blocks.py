"""Blocks keep what they hold wherever they move, and lie close on the shelf for their readers."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest
import torch

from burnish.engine.blocks import Block, Blocks, LayerShape, num_blocks_within

ROOT = Path(__file__).parents[2]
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


def _rooms(blocks: Blocks, held: Iterable[Block]) -> int:
    """For how many blocks there are tensors, on all shelves."""
    return sum(len(blocks.of_layer(width, 0)[0]) for width in {block.shelf for block in held})


@pytest.mark.parametrize("num_blocks", [200, 20, 7])
@pytest.mark.parametrize("seed", range(5))
def test_blocks_keep_what_they_hold_and_lie_by_their_readers_within_their_memory(seed: int, num_blocks: int):
    random, blocks = Random(seed), _blocks(num_blocks)
    held: dict[Block, float] = {}
    for value in range(30):
        for _ in range(min(random.randrange(6), blocks.num_free)):
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
        for block in random.sample(list(held), min(2, len(held), blocks.num_free)):
            block.num_owners += 1
            held[blocks.copy(block)] = held[block]
        blocks.settle()
        assert all(_holds(blocks, block, kept) for block, kept in held.items())
        assert all(block.num_readers <= block.shelf < max(1, 2 * block.num_readers) for block in held)
        for width in blocks.widths():
            assert sorted(b.place for b in held if b.shelf == width) == list(range(blocks.num_places(width)))
        assert blocks.num_free == num_blocks - len(held)
        assert _rooms(blocks, held) <= blocks.num_rooms == num_blocks + num_blocks // 8 + 2


def test_blocks_that_all_move_at_once_never_have_more_rooms_than_there_is_memory_for():
    """Where memory is full: from the shelf of prompts to that of eight readers and back, some at a time."""
    blocks = _blocks(40)
    held = {blocks.take(): float(value) for value in range(40)}
    blocks.settle()
    for block, value in held.items():
        _write(blocks, block, value)
    for change in (8, -7, 3, -4):
        for block in held:
            blocks.read(block, change)
        blocks.settle()
        assert _rooms(blocks, held) <= blocks.num_rooms == 47
        assert all(_holds(blocks, block, value) for block, value in held.items())


def test_as_many_blocks_may_be_held_as_there_are_rooms_for_beside_the_spare_ones():
    assert [num_blocks_within(num_rooms) for num_rooms in (0, 3, 4, 11, 47)] == [0, 0, 1, 8, 40]
    for num_rooms in range(4, 300):
        num_blocks = num_blocks_within(num_rooms)
        assert _blocks(num_blocks).num_rooms <= num_rooms < _blocks(num_blocks + 1).num_rooms + 1


def _peak_bytes(run: Callable[[], None]) -> int:
    """By how much the process grows at most while something runs: its resident set's high-water mark, reset before."""
    status, mark = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    mark.write_text("5")
    before = int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    run()
    return (int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) - before) << 10


def test_a_shelf_that_grows_holds_no_more_than_one_of_its_tensors_twice():
    """In a process of its own: what an allocator gives back depends on all that it gave before."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux says how large a process was at most")
    code = "from tests.engine import test_blocks; test_blocks.grow_a_shelf()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def grow_a_shelf():
    shapes = {layer: LayerShape(4, 64, 64) for layer in range(30)}
    blocks = Blocks(shapes, num_blocks=100, dtype=torch.float32, device=torch.device("cpu"))
    first = [blocks.take() for _ in range(60)]
    blocks.settle()
    for layer in shapes:
        for tensor_N in blocks.of_layer(0, layer):
            tensor_N[:60] = 1.0
    block_bytes, rooms = 2 * 30 * tensor_N[0].nbytes, len(tensor_N)
    for _ in range(rooms - 59):
        blocks.take()
    peak_bytes, grown = _peak_bytes(blocks.settle), len(blocks.of_layer(0, 0)[0]) - rooms
    assert 0 < grown * block_bytes < peak_bytes + block_bytes
    assert peak_bytes < (grown + 10) * block_bytes
    assert all(bool((tensor_N[: len(first)] == 1).all()) for tensor_N in blocks.of_layer(0, 29))


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
