"""Rows are shared out among ranks: all of them, in order, about as many tokens each, and pairs stay together."""

import pytest
import torch

from burnish.learner.batch import Batch, shared_out, shares
from burnish.learner.packing import Row


def rows(*lengths: int) -> list[Row]:
    return [Row(token_ids=(5,) * length, was_sampled=(False,) + (True,) * (length - 1)) for length in lengths]


@pytest.mark.parametrize(
    ("lengths", "num_shares", "together", "expected"),
    [
        ((10, 10, 10, 30), 2, 1, [3, 1]),
        ((11, 9), 2, 1, [1, 1]),
        ((9, 11), 2, 1, [1, 1]),
        ((40, 2, 2), 2, 1, [1, 2]),
        ((7,), 3, 1, [0, 1, 0]),
        ((5, 5, 5, 5, 5, 5), 2, 2, [2, 4]),
        ((), 2, 1, [0, 0]),
    ],
)
def test_rows_are_cut_where_tokens_are_even(
    lengths: tuple[int, ...], num_shares: int, together: int, expected: list[int]
) -> None:
    given = rows(*lengths)
    parts = [given[share] for share in shares(given, num_shares, together)]
    assert [row for part in parts for row in part] == given
    assert sorted(map(len, parts)) == sorted(expected)
    assert all(len(part) % together == 0 for part in parts)


def test_a_share_has_what_belongs_to_its_rows() -> None:
    given = rows(10, 10, 20)
    logprobs = [torch.full((row.num_trained,), float(number)) for number, row in enumerate(given)]
    batch = Batch(rows=given, aggregate="token_mean", max_length=1, old_logprobs=logprobs)
    first, second = shared_out(batch, 2)
    assert first.old_logprobs is not None and [float(one[0]) for one in first.old_logprobs] == [0.0, 1.0]
    assert second.old_logprobs is not None and [float(one[0]) for one in second.old_logprobs] == [2.0]
    assert second.ref_logprobs is None
    assert first.global_weight + second.global_weight == batch.global_weight
