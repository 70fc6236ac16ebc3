"""Ratio tables worked by hand; bounds unequal, so that swapping them shows."""

import math

import pytest
import torch

from burnish.objectives import Streams, cispo, dapo, dr_grpo, grpo, gspo, ppo


def one_token(ratio: float, advantage: float) -> Streams:
    return Streams(
        new_logprobs_T=torch.tensor([-1.0 + math.log(ratio)], dtype=torch.float64, requires_grad=True),
        old_logprobs_T=torch.tensor([-1.0], dtype=torch.float64),
        advantages_T=torch.tensor([advantage], dtype=torch.float64),
        weights_T=torch.ones(1, dtype=torch.float64),
        sequence_T=torch.zeros(1, dtype=torch.int64),
    )


@pytest.mark.parametrize("module", [grpo, dr_grpo, dapo, gspo], ids=lambda module: module.__name__)
@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "has_gradient"),
    [
        (1.5, +1.0, -1.3, False),  # too far up: clipped to 1 + clip_high
        (1.5, -1.0, +1.5, True),  # too far up on a bad token: min() is pessimistic, not clipped
        (0.5, +1.0, -0.5, True),  # moved down on a good token: not clipped
        (0.5, -1.0, +0.8, False),  # too far down: clipped to 1 - clip_low
        (1.1, +1.0, -1.1, True),  # inside the trust region
        (0.9, -2.0, +1.8, True),
    ],
)
def test_clip(module, ratio, advantage, expected, has_gradient):
    streams = one_token(ratio, advantage)
    loss = module.loss(streams, module.Config(clip_low=0.2, clip_high=0.3))
    loss.total.backward()
    assert loss.total.item() == pytest.approx(expected)
    assert streams.new_logprobs_T.grad.item() == pytest.approx(expected if has_gradient else 0.0)
    assert loss.metrics["clip_fraction"].item() == (0.0 if has_gradient else 1.0)


@pytest.mark.parametrize(("ratio", "advantage", "expected"), [(1.5, 1.0, -1.2), (0.5, -1.0, 0.8), (1.1, 1.0, -1.1)])
def test_ppo_clips_both_ways_alike(ratio, advantage, expected):
    assert ppo.loss(one_token(ratio, advantage), ppo.Config()).total.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected_gradient", "was_clipped"),
    [
        (1.5, +1.0, -1.3, 1.0),  # the weight is bounded, the gradient stays
        (1.5, -1.0, +1.3, 1.0),
        (0.5, +1.0, -0.8, 1.0),
        (1.1, +1.0, -1.1, 0.0),
    ],
)
def test_cispo_bounds_the_weight_of_the_gradient(ratio, advantage, expected_gradient, was_clipped):
    streams = one_token(ratio, advantage)
    loss = cispo.loss(streams, cispo.Config(ratio_min=0.8, ratio_max=1.3))
    loss.total.backward()
    assert streams.new_logprobs_T.grad.item() == pytest.approx(expected_gradient)
    assert loss.metrics["clip_fraction"].item() == was_clipped


def test_value_loss_is_the_weighted_squared_error():
    values_T = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64, requires_grad=True)
    returns_T = torch.tensor([0.5, 4.0, 5.0], dtype=torch.float64)
    weights_T = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)
    config = ppo.Config(value_coefficient=0.1)
    loss = ppo.value_loss(values_T, returns_T, weights_T, config)
    assert loss.total.item() == pytest.approx(0.1 * (0.25 + 0.5 * 4.0))
    assert loss.metrics["value_error"].item() == pytest.approx(2.25)
    assert torch.autograd.gradcheck(lambda v: ppo.value_loss(v, returns_T, weights_T, config).total, values_T)
