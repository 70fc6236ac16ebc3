"""A pack is a prefix tree: what rows begin with in common is stored once, and each row finds its own tokens."""

import random

import pytest

from burnish.learner.packing import Row, pack
from burnish.learner.prefix_tree import MIN_SHARED, PrefixTree, places

SYSTEM = list(range(100, 120))


def row(*parts: tuple[list[int], bool]) -> Row:
    """A row of parts, each sampled or not."""
    return Row(
        token_ids=tuple(i for ids, _ in parts for i in ids),
        was_sampled=tuple(sampled for ids, sampled in parts for _ in ids),
    )


def test_every_row_finds_its_tokens_and_positions_whatever_it_shares() -> None:
    draw = random.Random(0)
    rows: list[Row] = []
    for _ in range(60):
        start = list(draw.choice(rows).token_ids[: draw.randint(0, 60)]) if rows and draw.random() < 0.8 else []
        own = [draw.randint(0, 2) for _ in range(draw.randint(2, 40))]
        rows.append(row(([5, *start], False), (own, True)))
    for max_tokens in (10_000, 200, 1):
        seen: list[int] = []
        for piece in pack(rows, max_tokens):
            targets = piece.target_ids_N.tolist()
            for index in piece.row_indices:
                ours, targets = targets[: rows[index].num_trained], targets[rows[index].num_trained :]
                assert ours == [t for t, s in zip(rows[index].token_ids, rows[index].was_sampled, strict=True) if s]
            assert not targets
            seen += piece.row_indices
            assert len(piece.token_ids_T) <= max_tokens or len(piece.row_indices) == 1
        assert seen == list(range(60))


def test_a_place_in_the_flat_order_holds_the_sequences_token_at_its_position() -> None:
    draw = random.Random(1)
    tree, sequences, ends = PrefixTree(), [], []
    for _ in range(80):
        start = list(draw.choice(sequences)[: draw.randint(0, 50)]) if sequences else []
        sequences.append([*start, *(draw.randint(0, 3) for _ in range(draw.randint(1, 30)))])
        missing, before = tree.num_missing(sequences[-1]), tree.num_tokens
        ends.append(tree.insert(sequences[-1]))
        assert tree.num_tokens == before + missing
    flat = tree.flatten()
    assert len(flat.token_ids) == tree.num_tokens < sum(map(len, sequences))
    for sequence, end in zip(sequences, ends, strict=True):
        at = places(end)[: len(sequence)]
        assert [flat.token_ids[place] for place in at] == sequence
        assert [flat.positions[place] for place in at] == list(range(len(sequence)))


def test_the_turns_of_a_trajectory_that_come_as_rows_are_stored_once() -> None:
    first = row((SYSTEM, False), (list(range(30)), True))
    second = row((SYSTEM + list(range(30)), False), (list(range(50, 60)), False), (list(range(60, 80)), True))
    (piece,) = pack([first, second], 1000)
    assert len(piece.token_ids_T) == len(second.token_ids) - 1
    assert len(piece.target_ids_N) == 30 + 20


def test_groups_that_share_a_system_prompt_share_it_in_a_pack() -> None:
    rows = [row(([*SYSTEM, *[q] * 16], False), ([r, r, r], True)) for q in (1, 2, 3) for r in (7, 8)]
    (piece,) = pack(rows, 1000)
    assert len(piece.token_ids_T) == len(SYSTEM) + 3 * (16 + 2 * 2)


@pytest.mark.parametrize(("num_shared", "is_split"), [(MIN_SHARED - 1, False), (MIN_SHARED, True)])
def test_too_little_in_common_is_not_worth_a_split(num_shared: int, is_split: bool) -> None:
    tree = PrefixTree()
    for rest in (1, 2):
        tree.insert([*range(100, 100 + num_shared), *[rest] * 40])
    assert tree.num_tokens == num_shared * (1 if is_split else 2) + 80


def test_a_group_goes_to_the_next_pack_whole() -> None:
    groups = [[row(([p] * 20, False), ([r] * 5, True)) for r in (1, 2, 3)] for p in (7, 8)]
    sizes = [len(piece.row_indices) for piece in pack([one for group in groups for one in group], 40)]
    assert sizes == [3, 3]


def test_pairs_are_never_parted() -> None:
    rows = [row(([p] * 20, False), ([r] * length, True)) for p in (7, 8) for r, length in enumerate((5, 30, 9, 9))]
    for max_tokens in (1, 40, 60, 1000):
        for piece in pack(rows, max_tokens, num_together=2):
            first, *_ = piece.row_indices
            assert first % 2 == 0
            assert len(piece.row_indices) % 2 == 0
