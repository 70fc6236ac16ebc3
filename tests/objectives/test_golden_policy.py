"""Advantages and policy losses against the golden numbers."""

import pytest
import torch

from burnish.objectives import cispo, correction, dapo, dr_grpo, gae, grpo, gspo, overlong, reinforce, rloo, sft


@pytest.mark.parametrize(
    ("module", "key"),
    [(grpo, "grpo_unbiased_std_eps1e-6"), (dapo, "grpo_unbiased_std_eps1e-6"), (gspo, "grpo_unbiased_std_eps1e-6"),
     (cispo, "grpo_unbiased_std_eps1e-6"), (dr_grpo, "dr_grpo_mean_only"), (rloo, "rloo")],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)  # fmt: skip
def test_advantages_are_the_papers(module, key, golden, rewards_G, close):
    assert close(module.advantages(rewards_G, module.Config()), golden["advantages"][key])


def test_reinforce_advantage_is_the_reward_above_the_baseline(rewards_G, close):
    assert close(reinforce.advantages(rewards_G, reinforce.Config(baseline=0.25)), [0.75, -0.25, 0.25, -0.25])


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("seq_mean_token_mean", "grpo_seq_mean_token_mean"),
        ("token_mean", "dapo_global_token_mean"),
        ("sum_over_max_length", "dr_grpo_sum_over_G_times_maxlen8"),
        ("seq_mean_token_sum", "seq_mean_token_sum"),
    ],
)
@pytest.mark.parametrize("module", [grpo, dr_grpo, dapo], ids=lambda module: module.__name__)
def test_clipped_losses_aggregate_as_the_papers_do(module, kind, key, golden, batch_of, close):
    streams, global_weight = batch_of(kind)
    loss = module.loss(streams, module.Config(clip_low=0.2, clip_high=0.28))
    assert close(loss.total / global_weight, golden["policy_loss_clip_low0.2_high0.28_on_grpo_advantages"][key])


def test_gradient_of_dapo_is_the_golden_one(golden, batch_of, flat, close):
    streams, global_weight = batch_of(dapo.AGGREGATION)
    (dapo.loss(streams, dapo.Config()).total / global_weight).backward()
    expected = golden["policy_loss_clip_low0.2_high0.28_on_grpo_advantages"]["dapo_grad_wrt_logp_new"]
    assert close(streams.new_logprobs_T.grad, flat(expected))


def test_averaging_micro_batch_means_would_give_another_value(golden, batch_of, close):
    values = golden["policy_loss_clip_low0.2_high0.28_on_grpo_advantages"]
    parts = [batch_of("token_mean", sequences) for sequences in ((0, 2), (1, 3))]
    totals = [dapo.loss(part.streams, dapo.Config()).total for part in parts]
    wrong = sum(total / part.global_weight for total, part in zip(totals, parts, strict=True)) / 2
    right = sum(totals) / sum(part.global_weight for part in parts)
    assert close(wrong, values["wrong_value_if_token_means_are_averaged_over_2_microbatches_[0,2],[1,3]"])
    assert close(right, values["dapo_global_token_mean"])
    assert not close(wrong, right)


def test_gspo_ratio_is_one_number_a_sequence(golden, batch_of, close):
    streams, _ = batch_of(gspo.AGGREGATION)
    expected = torch.tensor(golden["gspo"]["s"], dtype=torch.float64)[streams.sequence_T]
    assert close(gspo.sequence_ratio(streams), expected)


def test_gspo_loss_is_the_golden_one(golden, batch_of, close):
    streams, global_weight = batch_of(gspo.AGGREGATION)
    total = gspo.loss(streams, gspo.Config()).total
    assert close(total / global_weight, golden["gspo"]["loss_eps_low3e-4_high4e-4"])


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (cispo.Config(), "ratio_clipped_to_[0,5]"),
        (cispo.Config(ratio_min=0.8, ratio_max=1.2), "ratio_clipped_to_[0.8,1.2]"),
        (cispo.Config(ratio_max=1.272), "ratio_clipped_to_max_1.272"),
    ],
)
def test_cispo_loss_is_the_golden_one(config, key, golden, batch_of, close):
    streams, global_weight = batch_of(cispo.AGGREGATION)
    assert close(cispo.loss(streams, config).total / global_weight, golden["cispo_global_token_mean"][key])


def test_cispo_gives_every_token_a_gradient_where_ppo_clips_it_away(batch_of):
    (streams, _), (clipped, _) = batch_of(), batch_of()
    cispo.loss(streams, cispo.Config(ratio_max=1.2)).total.backward()
    dapo.loss(clipped, dapo.Config()).total.backward()
    assert (streams.new_logprobs_T.grad != 0).all()
    assert not (clipped.new_logprobs_T.grad != 0).all()


def test_cross_entropy_is_the_mean_negative_log_probability(batch_of, close):
    streams, global_weight = batch_of(sft.AGGREGATION)
    assert close(sft.loss(streams, sft.Config()).total / global_weight, 7.6 / 10)


@pytest.mark.parametrize("module", [reinforce, rloo], ids=lambda module: module.__name__)
def test_policy_gradient_treats_a_reply_as_one_action(module, golden, batch_of, close):
    streams, global_weight = batch_of(module.AGGREGATION)
    total = module.loss(streams, module.Config()).total
    scores, sums = golden["advantages"]["grpo_unbiased_std_eps1e-6"], [-1.7, -2.9, -2.6, -0.4]
    assert close(total / global_weight, -sum(a * logp for a, logp in zip(scores, sums, strict=True)) / 4)


@pytest.mark.parametrize(
    ("multiply", "key"),
    [
        (lambda s: correction.tis(s, cap=2.0), "tis_cap2"),
        (lambda s: correction.icepop(s, low=0.5, high=2.0), "icepop_0.5_2"),
    ],
)
def test_token_correction_is_the_golden_one(multiply, key, golden, batch_of, flat, close):
    assert close(multiply(batch_of().streams), flat(golden["rollout_correction"][key]))


@pytest.mark.parametrize("name", ["sequence_product", "sequence_geometric"])
def test_sequence_correction_is_the_golden_one(name, golden, batch_of, close):
    streams = batch_of().streams
    multiply = {"sequence_product": correction.sequence_product, "sequence_geometric": correction.sequence_geometric}
    expected = torch.tensor(golden["rollout_correction"][name], dtype=torch.float64)[streams.sequence_T]
    assert close(multiply[name](streams), expected)


def test_gae_is_the_golden_one(golden, close):
    case = golden["gae_gamma1_lambda0.95"]
    rewards_T, values_T = torch.tensor(case["rewards"]).double(), torch.tensor(case["values"]).double()
    found = gae.estimate(rewards_T, values_T, torch.ones(3))
    assert close(found.advantages_T, case["expected"])
    assert close(found.returns_T, [0.94625, 0.975, 1.0])


def test_gae_steps_over_observation_tokens(golden, close):
    whole = golden["gae_gamma1_lambda0.95"]
    case = whole["with_observation_token_at_1"]
    first, last = case["expected_at_action_tokens"]
    values_T, mask_T = torch.tensor(case["values"]).double(), torch.tensor(case["mask"])
    found = gae.estimate(torch.tensor(whole["rewards"]).double(), values_T, mask_T)
    assert close(found.advantages_T, [first, 0.0, last])
    assert close(found.returns_T, [first + 0.2, 0.0, last + 0.5])


@pytest.mark.parametrize("length", ["16", "18", "20", "21"])
def test_overlong_penalty_is_the_golden_one(length, golden, close):
    expected = golden["overlong_soft_penalty_max20_cache4"][length]
    assert close(overlong.soft_penalty(int(length), max_length=20, cache=4), expected)


def test_overlong_penalty_refuses_a_stretch_longer_than_the_limit():
    with pytest.raises(ValueError, match=r"1\.\.max_length \(20\); got 21"):
        overlong.soft_penalty(5, max_length=20, cache=21)


def test_a_short_reply_earns_no_bonus():
    assert overlong.soft_penalty(3, max_length=20, cache=4) == 0
