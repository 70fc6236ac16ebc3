"""Whose turn it is, also where weights change all the time."""

from collections import Counter

import pytest

from burnish.rollout.turns import Turns

WEIGHTS = [5.0, 3.3, 2.17, 1.01]  # no two strides ever end together, so that rounding decides nothing


def test_sources_take_turns_by_their_weights() -> None:
    turns = Turns([3, 1])
    assert [turns.next() for _ in range(8)] == [0, 0, 0, 1, 0, 0, 0, 1]


def test_equal_weights_given_again_and_again_change_nothing() -> None:
    plain, told = Turns(WEIGHTS), Turns(WEIGHTS)
    found = []
    for number in range(60):
        if number % 4 == 3:
            told.weigh(WEIGHTS)
        found.append(told.next())
    assert found == [plain.next() for _ in range(60)]


def test_a_small_share_comes_up_although_weights_change_before_each_of_its_turns() -> None:
    turns = Turns([1.0] * 50)
    counts: Counter[int] = Counter()
    for number in range(500):
        if number % 8 == 0:
            turns.weigh([1.0 + (number // 8 + which) % 2 * 0.1 for which in range(50)])
        counts[turns.next()] += 1
    assert min(counts.values()) >= 9
    assert max(counts.values()) <= 11


def test_a_source_that_comes_in_waits_one_stride_and_one_that_leaves_has_no_turn() -> None:
    turns = Turns([1, 0])
    assert [turns.next() for _ in range(3)] == [0, 0, 0]
    turns.weigh([1, 1])
    assert [turns.next() for _ in range(4)] == [0, 1, 0, 1]
    turns.weigh([0, 1])
    assert [turns.next() for _ in range(2)] == [1, 1]


def test_no_weight_at_all_is_refused() -> None:
    with pytest.raises(AssertionError, match="some source has a turn"):
        Turns([1]).weigh([0])
