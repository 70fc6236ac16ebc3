"""What every objective of preferences promises; new files are found by themselves."""

import re
from dataclasses import fields, replace
from typing import get_args

import pytest
import torch

from burnish.core import plugins
from burnish.objectives import Loss, Streams, aggregation
from burnish.objectives.preferences import Labels, dpo, orpo

NAMES = plugins.names("preferences")
LENGTHS = [3, 2, 4, 1, 2, 5]


def streams(kind, sequences=range(6)) -> Streams:
    """Three pairs, of which the second has its preferred reply last."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor(LENGTHS)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    sequence_T = torch.arange(6).repeat_interleave(lengths)
    new, ref = (-2 * torch.rand(17, generator=generator, dtype=torch.float64) - 0.1 for _ in range(2))
    is_taken_T = torch.isin(sequence_T, torch.tensor(list(sequences)))
    return Streams(
        new_logprobs_T=new[is_taken_T].requires_grad_(),
        ref_logprobs_T=ref[is_taken_T],
        advantages_T=signs.repeat_interleave(lengths)[is_taken_T],
        weights_T=aggregation.weigh(kind, [LENGTHS[i] for i in sequences], max_length=1, dtype=new.dtype).weights_T,
        sequence_T=sequence_T[is_taken_T],
    )


@pytest.fixture(params=NAMES)
def objective(request):
    return plugins.load("preferences", request.param)


def value_and_gradient(objective, parts):
    losses = [objective.loss(part, objective.Config()) for part in parts]
    sum(loss.total for loss in losses).backward()
    names = losses[0].metrics
    metrics = {name: sum(loss.metrics[name] for loss in losses) for name in names}
    return sum(loss.total.detach() for loss in losses), torch.cat([p.new_logprobs_T.grad for p in parts]), metrics


def test_all_are_found():
    assert set(NAMES) >= {"dpo", "ipo", "kto", "orpo", "simpo", "slic"}


def test_docstring_cites_a_paper_and_its_aggregation(objective):
    assert re.search(r"https://arxiv\.org/abs/\d{4}\.\d{5}", objective.__doc__)
    assert f"Aggregation: `{objective.AGGREGATION}`" in objective.__doc__
    assert objective.LABELS in get_args(Labels)


def test_gradient_matches_finite_differences(objective):
    s = streams(objective.AGGREGATION)

    def total(new_logprobs_T):
        return objective.loss(replace(s, new_logprobs_T=new_logprobs_T), objective.Config()).total

    assert torch.autograd.gradcheck(total, s.new_logprobs_T)
    total(s.new_logprobs_T).backward()
    assert (s.new_logprobs_T.grad != 0).any()


def test_a_step_along_the_gradient_raises_the_margin(objective):
    s = streams(objective.AGGREGATION)
    before = objective.loss(s, objective.Config())
    before.total.backward()
    moved = replace(s, new_logprobs_T=(s.new_logprobs_T - 0.01 * s.new_logprobs_T.grad).detach())
    assert objective.loss(moved, objective.Config()).metrics["margin"] > before.metrics["margin"]


@pytest.mark.parametrize("split", [((0, 1), (2, 3, 4, 5)), ((0, 1), (2, 3), (4, 5))])
def test_micro_batches_of_whole_pairs_change_nothing(objective, split):
    whole = value_and_gradient(objective, [streams(objective.AGGREGATION)])
    parts = value_and_gradient(objective, [streams(objective.AGGREGATION, part) for part in split])
    torch.testing.assert_close(parts, whole)


def test_the_members_of_a_pair_may_come_in_any_order(objective):
    s = streams(objective.AGGREGATION)
    swapped = replace(s, sequence_T=s.sequence_T + 1 - 2 * (s.sequence_T % 2))
    torch.testing.assert_close(
        objective.loss(swapped, objective.Config()).total, objective.loss(s, objective.Config()).total
    )


def test_tokens_of_weight_zero_change_nothing(objective):
    s = streams(objective.AGGREGATION)
    plain = value_and_gradient(objective, [s])
    doubled_T = torch.arange(17).repeat_interleave(2)
    is_padding_T = torch.arange(34) % 2 == 1
    given = {f.name: getattr(s, f.name) for f in fields(s) if getattr(s, f.name) is not None}
    padded = Streams(**{name: value.detach()[doubled_T] for name, value in given.items()})
    padded = replace(
        padded,
        new_logprobs_T=padded.new_logprobs_T.masked_fill(is_padding_T, -9.0).requires_grad_(),
        weights_T=padded.weights_T.masked_fill(is_padding_T, 0.0),
        advantages_T=padded.advantages_T.where(~is_padding_T, -padded.advantages_T),
    )
    total, gradient_T, metrics = value_and_gradient(objective, [padded])
    torch.testing.assert_close((total, gradient_T[~is_padding_T], metrics), plain)
    assert (gradient_T[is_padding_T] == 0).all()


def test_metrics_are_means_once_divided_by_the_weight(objective):
    s = streams(objective.AGGREGATION)
    loss = objective.loss(s, objective.Config())
    assert isinstance(loss, Loss)
    assert 0 <= loss.metrics["accuracy"] / s.weights_T.sum() <= 1
    assert not any(value.requires_grad for value in loss.metrics.values())


def test_a_reference_is_read_where_the_file_says_so(objective):
    s = replace(streams(objective.AGGREGATION), ref_logprobs_T=None)
    if objective.NEEDS_REFERENCE:
        with pytest.raises(ValueError, match=r"reads Streams\.ref_logprobs_T"):
            objective.loss(s, objective.Config())
    else:
        assert objective.loss(s, objective.Config()).total.isfinite()


def test_where_half_of_the_labels_are_wrong_there_is_nothing_to_debias():
    with pytest.raises(ValueError, match=r"below 0\.5 .*; got 0\.5"):
        dpo.loss(streams("pair_mean"), dpo.Config(label_smoothing=0.5, debias=True))


@pytest.mark.parametrize("certain", [0, 1])
def test_orpo_stays_finite_where_a_reply_is_certain(certain: int):
    logprobs_T = torch.tensor([-1.0, -1.0])
    logprobs_T[certain] = 0.0  # a probability that was rounded to 1
    s = Streams(
        new_logprobs_T=logprobs_T.requires_grad_(),
        advantages_T=torch.tensor([1.0, -1.0]),
        weights_T=torch.full((2,), 0.5),
        sequence_T=torch.arange(2),
    )
    loss = orpo.loss(s, orpo.Config())
    loss.total.backward()
    assert loss.total.isfinite()
    assert logprobs_T.grad.isfinite().all()
