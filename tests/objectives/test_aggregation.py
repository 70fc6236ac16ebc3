"""Aggregation: shares add up; the weights themselves are in the kernel."""

from typing import get_args

import pytest
import torch

from burnish.objectives import aggregation

LENGTHS = [3, 2, 4, 1]


@pytest.mark.parametrize("kind", get_args(aggregation.Kind))
def test_parts_weigh_what_the_whole_weighs(kind, close):
    whole = aggregation.weigh(kind, LENGTHS, max_length=8)
    parts = [aggregation.weigh(kind, lengths, max_length=8) for lengths in ([3], [2, 4], [1])]
    assert close(torch.cat([part.weights_T for part in parts]), whole.weights_T)
    assert sum(part.global_weight for part in parts) == whole.global_weight
