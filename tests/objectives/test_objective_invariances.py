"""What must not change a loss, and what must."""

from dataclasses import fields, replace
from typing import get_args

import pytest
import torch

from burnish.core import plugins
from burnish.objectives import (
    Streams,
    aggregation,
    awr,
    correction,
    dapo,
    dr_grpo,
    grpo,
    kl,
    maxrl,
    oapl,
    ops,
    reinforce,
    rloo,
    step,
)

NAMES = plugins.names("objectives")
CORRECTIONS = [
    correction.tis, correction.icepop, correction.sequence_product, correction.sequence_geometric,
    correction.sequence_mask, correction.geometric_mask, correction.geometric_mask_tis,
]  # fmt: skip


@pytest.fixture(params=NAMES)
def objective(request):
    return plugins.load("objectives", request.param)


def value_and_gradient(objective, batches):
    """Loss and gradient of a batch that arrives in parts."""
    divisor = sum(batch.global_weight for batch in batches)
    totals = [objective.loss(batch.streams, objective.Config()).total for batch in batches]
    (sum(totals) / divisor).backward()
    gradients = [batch.streams.new_logprobs_T.grad for batch in batches]
    return sum(totals).detach() / divisor, torch.cat(gradients)


def tokens(streams: Streams, order_T) -> Streams:
    """The same streams with their tokens chosen or reordered."""
    given = {field.name: getattr(streams, field.name) for field in fields(streams)}
    chosen = {name: stream_T[order_T].detach() for name, stream_T in given.items() if stream_T is not None}
    return Streams(**{**chosen, "new_logprobs_T": chosen["new_logprobs_T"].requires_grad_()})


@pytest.mark.parametrize("kind", get_args(aggregation.Kind))
@pytest.mark.parametrize("split", [((0, 1), (2, 3)), ((0,), (1, 2), (3,)), ((0,), (1,), (2,), (3,))])
def test_micro_batches_change_nothing(objective, kind, split, batch_of):
    whole = value_and_gradient(objective, [batch_of(kind)])
    parts = value_and_gradient(objective, [batch_of(kind, sequences) for sequences in split])
    torch.testing.assert_close(parts, whole)


def test_the_order_of_sequences_changes_nothing(objective, batch_of):
    value, gradient_T = value_and_gradient(objective, [batch_of(objective.AGGREGATION)])
    permuted, permuted_gradient_T = value_and_gradient(objective, [batch_of(objective.AGGREGATION, (2, 0, 3, 1))])
    torch.testing.assert_close(permuted, value)
    order_T = torch.tensor([5, 6, 7, 8, 0, 1, 2, 9, 3, 4])
    torch.testing.assert_close(permuted_gradient_T, gradient_T[order_T])


def test_tokens_of_weight_zero_change_nothing(objective, batch_of):
    streams, _ = batch_of(objective.AGGREGATION)
    plain = objective.loss(streams, objective.Config())
    plain.total.backward()
    doubled_T = torch.arange(10).repeat_interleave(2)
    padded = tokens(streams, doubled_T)
    is_padding_T = torch.arange(20) % 2 == 1
    padded = replace(
        padded,
        weights_T=padded.weights_T.masked_fill(is_padding_T, 0.0),
        old_logprobs_T=padded.old_logprobs_T.masked_fill(is_padding_T, -9.0),
        advantages_T=padded.advantages_T.masked_fill(is_padding_T, 7.0),
    )
    loss = objective.loss(padded, objective.Config())
    loss.total.backward()
    torch.testing.assert_close(loss.total, plain.total)
    torch.testing.assert_close(dict(loss.metrics), dict(plain.metrics))
    torch.testing.assert_close(padded.new_logprobs_T.grad[~is_padding_T], streams.new_logprobs_T.grad)
    assert (padded.new_logprobs_T.grad[is_padding_T] == 0).all()


def test_sequence_numbers_may_have_gaps(objective, batch_of):
    streams, _ = batch_of()
    gaps = replace(streams, sequence_T=streams.sequence_T * 100 + 7)
    torch.testing.assert_close(
        objective.loss(gaps, objective.Config()).total, objective.loss(streams, objective.Config()).total
    )


@pytest.mark.parametrize("module", [grpo, rloo, dr_grpo, dapo, oapl, awr], ids=lambda module: module.__name__)
def test_shifting_the_rewards_changes_no_advantage(module, rewards_G):
    shifted_G = module.advantages(rewards_G + 3.25, module.Config())
    torch.testing.assert_close(shifted_G, module.advantages(rewards_G, module.Config()))


def test_shifting_the_rewards_does_change_plain_reinforce(rewards_G):
    config = reinforce.Config()
    assert not torch.allclose(reinforce.advantages(rewards_G + 3, config), reinforce.advantages(rewards_G, config))


@pytest.mark.parametrize(
    ("module", "is_invariant"),
    [(grpo, True), (dapo, True), (dr_grpo, False), (rloo, False)],
    ids=lambda v: str(v)[-20:],
)
def test_scaling_the_rewards_changes_advantages_unless_divided_by_their_spread(module, is_invariant, rewards_G):
    scaled_G = module.advantages(rewards_G * 40, module.Config())
    assert torch.allclose(scaled_G, module.advantages(rewards_G, module.Config()), atol=1e-5) == is_invariant


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1 / 3])
@pytest.mark.parametrize("module", [grpo, rloo, dr_grpo, dapo, maxrl, oapl, awr], ids=lambda module: module.__name__)
def test_equal_rewards_give_exactly_no_advantage(module, reward, dtype):
    advantages_G = module.advantages(torch.full((7,), reward, dtype=dtype), module.Config())
    assert (advantages_G == 0).all()


@pytest.mark.parametrize("module", [grpo, rloo, dr_grpo, dapo, maxrl, oapl, awr], ids=lambda module: module.__name__)
def test_a_group_of_one_is_refused(module):
    with pytest.raises(ValueError, match="at least two rewards to be its own baseline; got 1"):
        module.advantages(torch.ones(1), module.Config())


@pytest.mark.parametrize("name", ["grpo", "dapo", "ppo", "gspo", "cispo", "reinforce"])
def test_correction_scales_the_policy_term_and_nothing_else(name, batch_of):
    """A sequence-wide multiplier of the advantages equals one of the weights."""
    objective, (streams, _) = plugins.load("objectives", name), batch_of()
    multipliers_T = correction.sequence_geometric(streams)
    corrected = objective.loss(correction.apply(streams, multipliers_T), objective.Config())
    weighed = objective.loss(replace(streams, weights_T=streams.weights_T * multipliers_T), objective.Config())
    torch.testing.assert_close(corrected.total, weighed.total)
    torch.testing.assert_close(dict(corrected.metrics), dict(objective.loss(streams, objective.Config()).metrics))


def test_correction_carries_no_gradient(batch_of):
    streams, _ = batch_of()
    leaking = replace(streams, old_logprobs_T=streams.new_logprobs_T)
    for multiply in CORRECTIONS:
        assert not multiply(leaking).requires_grad


def test_where_sampler_and_trainer_agree_correction_is_one(batch_of):
    streams, _ = batch_of()
    agreeing = replace(streams, rollout_logprobs_T=streams.old_logprobs_T)
    for multiply in CORRECTIONS:
        assert (multiply(agreeing) == 1).all()


def test_terms_add_up(batch_of):
    streams, _ = batch_of()
    policy, penalty = dapo.loss(streams, dapo.Config()), kl.penalty(streams, "k2", 0.1)
    both = ops.add(policy, penalty)
    torch.testing.assert_close(both.total, policy.total + penalty.total)
    assert set(both.metrics) == {*policy.metrics, "kl_ref"}


def test_the_ratio_is_one_and_nothing_is_clipped_on_policy(batch_of):
    streams, global_weight = batch_of("token_mean")
    on_policy = replace(streams, old_logprobs_T=streams.new_logprobs_T.detach())
    metrics = dapo.loss(on_policy, dapo.Config()).metrics
    assert metrics["ratio"] == global_weight
    assert metrics["clip_fraction"] == 0


def test_a_sequence_of_padding_alone_changes_nothing(objective, batch_of):
    streams, _ = batch_of(objective.AGGREGATION)
    masked_T = streams.sequence_T == 1
    masked = replace(streams, weights_T=streams.weights_T.masked_fill(masked_T, 0.0))
    loss = objective.loss(masked, objective.Config())
    rest, _ = batch_of(objective.AGGREGATION, (0, 2, 3))
    torch.testing.assert_close(loss.total, objective.loss(rest, objective.Config()).total)
    loss.total.backward()
    assert (streams.new_logprobs_T.grad[masked_T] == 0).all()


def test_levelling_a_step_is_invariant_to_the_order_of_its_replies():
    """Ranks and micro-batches come after it; their order must not matter to it."""
    taken = step.Step(torch.tensor([1.0, 0.0, 0.5, -2.0]), torch.tensor([3, 2, 4, 1]), torch.tensor([0, 0, 1, 1]))
    order_B = torch.tensor([2, 0, 3, 1])
    moved = step.Step(*(field[order_B] for field in taken))
    for function in (step.whiten, step.over_spread, step.per_prompt):
        torch.testing.assert_close(function(moved), function(taken)[order_B])


def test_whitened_advantages_have_mean_0_and_spread_1_over_tokens():
    taken = step.Step(torch.tensor([1.0, 0.0, 0.5, -2.0]), torch.tensor([3, 2, 4, 1]), torch.tensor([0, 0, 1, 1]))
    whitened_T = step.whiten(taken).repeat_interleave(taken.lengths_B)
    torch.testing.assert_close(whitened_T.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(whitened_T.std(), torch.tensor(1.0))


def test_under_a_prompt_mean_a_token_mean_is_the_mean_of_the_groups_token_means(batch_of):
    streams, global_weight = batch_of("token_mean")
    group_B = torch.tensor([0, 1, 1, 1])
    advantages_B = torch.tensor([1.0, -0.5, 0.25, 2.0], dtype=torch.float64)
    levelled_B = step.per_prompt(step.Step(advantages_B, torch.tensor([3, 2, 4, 1]), group_B))
    total = reinforce.loss(replace(streams, advantages_T=levelled_B[streams.sequence_T]), reinforce.Config()).total
    scores_T = -(advantages_B[streams.sequence_T] * streams.new_logprobs_T)
    expected = (scores_T[:3].mean() + scores_T[3:].mean()) / 2
    torch.testing.assert_close(total / global_weight, expected)
