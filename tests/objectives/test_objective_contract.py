"""What every objective promises; new files are found by themselves."""

import ast
import dataclasses
import inspect
import math
import re
from pathlib import Path
from typing import get_args

import pytest
import torch

from burnish.core import plugins
from burnish.objectives import Loss, Streams, aggregation, ops

NAMES = plugins.names("objectives")
FILES = sorted(Path(inspect.getfile(ops)).parent.rglob("*.py"))
STOP_GRADIENT = {"cispo", "opd"}  # hold a function of the log-probabilities fixed, which finite differences would move
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=NAMES)
def objective(request):
    return plugins.load("objectives", request.param)


def test_all_objectives_are_found():
    assert set(NAMES) >= set(
        "awr cispo dapo dr_grpo grpo gspo maxrl oapl opd ppo reinforce reinforce_pp rloo sft".split()
    )


def test_config_is_frozen_and_has_defaults(objective):
    config = objective.Config()
    assert dataclasses.is_dataclass(config)
    assert objective.Config.__dataclass_params__.frozen


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("awr", {"beta": 1.0, "max_weight": 20.0}),
        ("cispo", {"ratio_min": 0.0, "ratio_max": 5.0, "ratio_to_sampler": False}),
        ("dapo", {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": math.inf}),
        ("dr_grpo", {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": math.inf}),
        ("grpo", {"clip_low": 0.2, "clip_high": 0.2, "divide_by_std": True, "epsilon": 1e-6, "dual_clip": math.inf}),
        ("gspo", {"clip_low": 3e-4, "clip_high": 4e-4}),
        ("ppo", {"clip": 0.2, "value_coefficient": 1.0, "value_clip": math.inf}),
        ("reinforce", {"baseline": 0.0}),
        ("reinforce_pp", {"clip_low": 0.2, "clip_high": 0.2, "group_baseline": False}),
    ],
)
def test_defaults_are_the_papers(name, defaults):
    assert dataclasses.asdict(plugins.load("objectives", name).Config()).items() >= defaults.items()


def test_docstring_cites_a_paper_and_its_aggregation(objective):
    assert re.search(r"https://(arxiv\.org/abs/\d{4}\.\d{5}|doi\.org/|\S+\.pdf)", objective.__doc__)
    assert f"Aggregation: `{objective.AGGREGATION}`" in objective.__doc__
    assert objective.AGGREGATION in get_args(aggregation.Kind)


def test_loss_is_finite_and_differentiable(objective, batch_of):
    streams, _ = batch_of(objective.AGGREGATION)
    loss = objective.loss(streams, objective.Config())
    loss.total.backward()
    assert isinstance(loss, Loss)
    assert loss.total.shape == ()
    assert loss.total.isfinite()
    assert streams.new_logprobs_T.grad.isfinite().all()
    assert (streams.new_logprobs_T.grad != 0).any()


def test_metrics_are_detached_finite_scalars(objective, batch_of):
    metrics = objective.loss(batch_of().streams, objective.Config()).metrics
    assert metrics
    assert all(value.shape == () and value.isfinite() and not value.requires_grad for value in metrics.values())


@pytest.mark.parametrize("name", sorted(set(NAMES) - STOP_GRADIENT))
def test_gradient_matches_finite_differences(name, batch_of):
    objective = plugins.load("objectives", name)
    streams, _ = batch_of(objective.AGGREGATION)

    def total(new_logprobs_T):
        return objective.loss(dataclasses.replace(streams, new_logprobs_T=new_logprobs_T), objective.Config()).total

    assert torch.autograd.gradcheck(total, streams.new_logprobs_T)


@pytest.mark.parametrize("name", sorted(STOP_GRADIENT))
def test_gradient_is_that_of_the_policy_gradient_with_the_ratio_held_fixed(name, batch_of):
    objective = plugins.load("objectives", name)
    streams, _ = batch_of(objective.AGGREGATION)
    objective.loss(streams, objective.Config()).total.backward()
    ratio_T = (streams.new_logprobs_T - streams.old_logprobs_T).exp().detach().clamp(max=objective.Config().ratio_max)
    advantages_T = score_on_policy(name, streams)
    torch.testing.assert_close(streams.new_logprobs_T.grad, -ratio_T * advantages_T * streams.weights_T)

    def held(new_logprobs_T):
        moved = dataclasses.replace(streams, new_logprobs_T=new_logprobs_T)
        return ops.policy_gradient(moved, ratio_T * advantages_T).total

    assert torch.autograd.gradcheck(held, streams.new_logprobs_T)


def score_on_policy(name: str, streams: Streams) -> torch.Tensor:
    """What the log-probability of a token is raised by, where policy, proximal policy and sampler are one."""
    match name:
        case "sft":
            return torch.ones_like(streams.weights_T)
        case "awr":
            return streams.advantages_T.exp()
        case "opd":
            return (streams.ref_logprobs_T - streams.new_logprobs_T).detach()
        case "oapl":  # the square of a reply's sum, at each of its tokens once
            return 2 * streams.advantages_T / streams.weights_T
        case _:
            return streams.advantages_T


@pytest.mark.parametrize("name", NAMES)
def test_on_policy_the_gradient_is_the_policy_gradient(name, batch_of):
    """Whatever a loss does off policy, at ratio 1 it is REINFORCE (and cross entropy has advantage 1)."""
    objective = plugins.load("objectives", name)
    streams, _ = batch_of("seq_mean_token_mean")
    same_T = streams.new_logprobs_T.detach()
    on_policy = dataclasses.replace(streams, old_logprobs_T=same_T, rollout_logprobs_T=same_T)
    objective.loss(on_policy, objective.Config()).total.backward()
    torch.testing.assert_close(streams.new_logprobs_T.grad, -score_on_policy(name, streams) * streams.weights_T)


def test_an_absurd_token_leaves_the_loss_finite(objective, batch_of):
    streams, _ = batch_of()
    absurd_T = streams.old_logprobs_T.clone()
    absurd_T[0] = absurd_T[9] = -1e5
    assert objective.loss(dataclasses.replace(streams, old_logprobs_T=absurd_T), objective.Config()).total.isfinite()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_synchronisation_with_the_device_in_a_loss(file):
    """`gae` alone works on lists: it runs once a batch, before the update."""
    called = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
    forbidden = {"item", "cpu", "numpy", "tolist", "cuda"}
    assert not called & forbidden - ({"tolist"} if file.stem == "gae" else set())


@pytest.mark.parametrize("stream", ["advantages_T", "old_logprobs_T"])
def test_a_missing_stream_is_named(stream, batch_of):
    with pytest.raises(ValueError, match=rf"reads Streams\.{stream}; got None"):
        plugins.load("objectives", "grpo").loss(
            dataclasses.replace(batch_of().streams, **{stream: None}), plugins.load("objectives", "grpo").Config()
        )
