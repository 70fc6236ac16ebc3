"""Aggregation: weights of tokens and of sequences, worked by hand on lengths 3, 2, 4, 1."""

import pytest
import torch

from burnish.objectives import aggregation

LENGTHS = [3, 2, 4, 1]


@pytest.mark.parametrize(
    ("kind", "weights", "global_weight"),
    [
        ("token_mean", [1] * 10, 10),
        ("seq_mean_token_mean", [1 / 3] * 3 + [1 / 2] * 2 + [1 / 4] * 4 + [1], 4),
        ("seq_mean_token_sum", [1] * 10, 4),
        ("sum_over_max_length", [1] * 10, 32),
    ],
)
def test_weights_and_divisor(kind, weights, global_weight, close):
    found = aggregation.weigh(kind, LENGTHS, max_length=8, dtype=torch.float64)
    assert close(found.weights_T, weights)
    assert found.global_weight == global_weight


@pytest.mark.parametrize("kind", ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "sum_over_max_length"])
def test_parts_weigh_what_the_whole_weighs(kind, close):
    whole = aggregation.weigh(kind, LENGTHS, max_length=8)
    parts = [aggregation.weigh(kind, lengths, max_length=8) for lengths in ([3], [2, 4], [1])]
    assert close(torch.cat([part.weights_T for part in parts]), whole.weights_T)
    assert sum(part.global_weight for part in parts) == whole.global_weight


@pytest.mark.parametrize("kind", ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "sum_over_max_length"])
def test_a_sequence_that_trains_no_token_counts_nowhere(kind):
    assert aggregation.weigh(kind, [3, 0], max_length=8).global_weight == (
        aggregation.weigh(kind, [3], max_length=8).global_weight
    )
