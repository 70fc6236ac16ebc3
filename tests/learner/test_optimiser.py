"""Optimisers by name: what they move, and that a checkpoint goes on bit by bit."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from burnish.core.errors import ConfigError
from burnish.learner.optimiser import Kind, Optimiser, OptimiserConfig
from burnish.learner.weights import Weights

KINDS = [
    "adamw",
    "muon",
    pytest.param(
        "adamw_8bit",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(find_spec("torchao") is None, reason="the package torchao is not installed"),
        ],
    ),
]
MATRICES = frozenset({"matrix"})


def parameters() -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"embedding": (64, 80), "matrix": (64, 96), "norm": (64,)}
    return {name: nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in shapes.items()}


def push(weights: Weights, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for master in weights.masters.values():
        master.grad = torch.randn(master.shape, generator=generator)
    weights.step(1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_goes_on_from_a_checkpoint_ends_with_the_same_bits(kind: Kind, tmp_path: Path) -> None:
    config = OptimiserConfig(kind=kind, weight_decay=0.1, ema_decay=0.9)
    unbroken, broken, resumed = (Weights(parameters(), matrices=MATRICES) for _ in range(3))
    for weights in (unbroken, broken, resumed):
        weights.reset_optimiser(config)
    for step in range(4):
        push(unbroken, step)
    for step in range(2):
        push(broken, step)
    broken.save(tmp_path, with_optimiser=True)
    resumed.load(tmp_path)
    for step in range(2, 4):
        push(resumed, step)
    for name, master in unbroken.masters.items():
        assert torch.equal(resumed.masters[name], master)
        assert torch.equal(resumed.average[name], unbroken.average[name])
    assert resumed.version == 4


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimiser_goes_downhill(kind: Kind) -> None:
    weights = Weights(parameters(), matrices=MATRICES)
    weights.reset_optimiser(OptimiserConfig(kind=kind))
    sizes = []
    for _ in range(20):
        for master in weights.masters.values():
            master.grad = master.detach().clone()
        sizes.append(sum(float(master.detach().square().sum()) for master in weights.masters.values()))
        weights.step(1e-2)
    assert sizes[-1] < 0.95 * sizes[0]


def test_the_first_step_of_adamw_is_the_rate_in_the_gradients_sign_after_decay() -> None:
    master = nn.Parameter(torch.tensor([2.0, -4.0]))
    optimiser = Optimiser(OptimiserConfig(weight_decay=0.5), {"a": master}, frozenset())
    master.grad = torch.tensor([3.0, -1e-3])
    optimiser.step(0.1)
    # w (1 - 0.1 * 0.5) - 0.1 * sign(g)
    torch.testing.assert_close(master.detach(), torch.tensor([2.0 * 0.95 - 0.1, -4.0 * 0.95 + 0.1]))


def test_muon_moves_matrices_by_orthogonal_steps_and_leaves_the_rest_to_adamw() -> None:
    given = parameters()
    before = {name: p.detach().clone() for name, p in given.items()}
    weights = Weights(given, matrices=MATRICES)
    weights.reset_optimiser(OptimiserConfig(kind="muon", max_grad_norm=1e9))
    push(weights, 0)
    moved = {name: before[name] - p.detach() for name, p in given.items()}
    strengths = torch.linalg.svdvals(moved["matrix"] / (1e-2 * 0.2 * 96**0.5))
    assert 0.5 < strengths.min() < strengths.max() < 1.4
    torch.testing.assert_close(moved["embedding"].abs(), torch.full((64, 80), 1e-2), atol=1e-5, rtol=0)


def test_muon_without_a_matrix_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose 'adamw'"):
        Weights(parameters()).reset_optimiser(OptimiserConfig(kind="muon"))


def test_the_average_follows_its_formula_and_can_be_gone_on_with() -> None:
    weights = Weights({"a": nn.Parameter(torch.tensor([1.0]))})
    weights.reset_optimiser(OptimiserConfig(ema_decay=0.75))
    expected = 1.0
    for _ in range(3):
        weights.masters["a"].grad = torch.tensor([1.0])
        weights.step(0.5)
        expected = 0.75 * expected + 0.25 * float(weights.masters["a"].detach())
    assert float(weights.masters["a"].detach()) == pytest.approx(1.0 - 3 * 0.5)
    weights.adopt_average()
    assert float(weights.masters["a"].detach()) == pytest.approx(expected)
    assert weights.version == 4


@pytest.mark.skipif(find_spec("torchao") is not None, reason="the package torchao is installed")
def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(ConfigError, match="optim8bit"):
        Weights(parameters()).reset_optimiser(OptimiserConfig(kind="adamw_8bit"))
