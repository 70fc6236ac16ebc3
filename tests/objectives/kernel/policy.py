"""Advantages and policy losses: golden numbers, and tables worked by hand."""

import math
from dataclasses import replace

import torch

from burnish.objectives import (
    awr,
    cispo,
    correction,
    dapo,
    dialects,
    dr_grpo,
    grpo,
    gspo,
    kl,
    maxrl,
    oapl,
    opd,
    ops,
    ppo,
    reinforce,
    reinforce_pp,
    rloo,
    sft,
    step,
)
from tests.objectives.kernel.batch import GOLDEN, batch_of, close, double, flat, gradient, one_token, rewards

CLIPPED = GOLDEN["policy_loss_clip_low0.2_high0.28_on_grpo_advantages"]
SCORES = GOLDEN["advantages"]["grpo_unbiased_std_eps1e-6"]


def check_advantages_are_the_papers():
    of_spread = dict.fromkeys((grpo, dapo, gspo, cispo, awr), "grpo_unbiased_std_eps1e-6")
    for module, key in {**of_spread, dr_grpo: "dr_grpo_mean_only", rloo: "rloo"}.items():
        assert close(module.advantages(rewards(), module.Config()), GOLDEN["advantages"][key]), module.__name__


def check_reinforce_advantage_is_the_reward_above_the_baseline():
    assert close(reinforce.advantages(rewards(), reinforce.Config(baseline=0.25)), [0.75, -0.25, 0.25, -0.25])


def check_maxrl_advantage_is_in_units_of_the_mean():
    assert close(maxrl.advantages(rewards(), maxrl.Config()), [0.625 / 0.375, -1.0, 0.125 / 0.375, -1.0])
    assert close(maxrl.advantages(double([0.0, 0.0]), maxrl.Config()), [0.0, 0.0])


def check_oapl_advantage_is_the_reward_above_the_soft_maximum():
    value = 0.5 * math.log((math.exp(2) + 1 + math.exp(1) + 1) / 4)
    expected = [1 - value, -value, 0.5 - value, -value]
    assert close(oapl.advantages(rewards(), oapl.Config(beta_value=0.5)), expected)
    assert close(oapl.advantages(rewards(), oapl.Config(beta_value=1e6)), GOLDEN["advantages"]["dr_grpo_mean_only"])


def check_reinforce_pp_advantages_are_whitened_over_tokens():
    """Lengths 3, 2, 4, 1: mean (3 + 2) / 10, and the sum of squares about it is 2.5."""
    found = reinforce_pp.over_step(golden_step(reinforce_pp.advantages(rewards(), reinforce_pp.Config())), None)
    assert close(found, (rewards() - 0.5) / math.sqrt((3 * 0.25 + 2 * 0.25 + 0 + 0.25) / 9))
    config = reinforce_pp.Config(group_baseline=True)
    assert close(reinforce_pp.advantages(rewards(), config), GOLDEN["advantages"]["dr_grpo_mean_only"])


def golden_step(advantages_B, group=(0, 0, 1, 1)):
    return step.Step(advantages_B, torch.tensor([3, 2, 4, 1]), torch.tensor(group))


def check_levelling_holds_where_a_step_is_small_or_even():
    """A spread of 0 divides by the epsilon alone, and one reply has no spread."""
    one = step.Step(double([0.5]), torch.tensor([1]), torch.tensor([0]))
    assert close(step.whiten(one), [0.0])
    assert close(step.over_spread(one), [0.5])
    two = step.Step(double([1e-9, -1e-9]), torch.tensor([1, 1]), torch.tensor([0, 0]))
    assert close(step.whiten(two), [1e-5, -1e-5])
    assert abs(float(step.over_spread(two)[0]) - 1e-9 / (math.sqrt(2) * 1e-9 + 1e-6)) < 1e-8
    assert step.whiten(two)[0] > 0.9e-5


def check_a_prompt_mean_counts_each_prompt_alike():
    found = step.per_prompt(golden_step(double([1.0, 1.0, 1.0, 1.0]), group=(0, 1, 1, 1)))
    assert close(found, [5 / 3, 5 / 7, 5 / 7, 5 / 7])


def check_scalerl_divides_by_the_spread_over_the_step():
    config = dialects.choose("objectives", "cispo@scalerl").config
    taken = golden_step(double([0.5, -0.5, 0.25, -0.25]), group=(0, 1, 1, 1))
    expected = taken.advantages_B / (taken.advantages_B.square().sum() / 3).sqrt()
    assert close(cispo.over_step(taken, config), expected * double([5 / 3, 5 / 7, 5 / 7, 5 / 7]))
    assert close(cispo.over_step(taken, cispo.Config()), taken.advantages_B)


def check_clipped_losses_aggregate_as_the_papers_do():
    for kind, key in [("seq_mean_token_mean", "grpo_seq_mean_token_mean"), ("token_mean", "dapo_global_token_mean"),
                      ("sum_over_max_length", "dr_grpo_sum_over_G_times_maxlen8"),
                      ("seq_mean_token_sum", "seq_mean_token_sum")]:  # fmt: skip
        for module in (grpo, dr_grpo, dapo, maxrl, reinforce_pp):
            streams, global_weight = batch_of(kind)
            loss = module.loss(streams, module.Config(clip_low=0.2, clip_high=0.28))
            assert close(loss.total / global_weight, CLIPPED[key]), (module.__name__, kind)


def check_defaults_of_dapo_are_its_paper_s():
    streams, global_weight = batch_of(dapo.AGGREGATION)
    found_T = gradient(dapo.loss(streams, dapo.Config()).total / global_weight, streams)
    assert close(found_T, flat(CLIPPED["dapo_grad_wrt_logp_new"]))


def check_averaging_micro_batch_means_would_give_another_value():
    parts = [batch_of("token_mean", sequences) for sequences in ((0, 2), (1, 3))]
    totals = [dapo.loss(part.streams, dapo.Config()).total for part in parts]
    wrong = sum(total / part.global_weight for total, part in zip(totals, parts, strict=True)) / 2
    right = sum(totals) / sum(part.global_weight for part in parts)
    assert close(wrong, CLIPPED["wrong_value_if_token_means_are_averaged_over_2_microbatches_[0,2],[1,3]"])
    assert close(right, CLIPPED["dapo_global_token_mean"])


def check_dialects_have_the_numbers_of_their_sources():
    bounds = {"clip_low": 0.2, "clip_high": 0.2}
    expected = {
        "grpo": {**bounds, "epsilon": 1e-6, "dual_clip": math.inf},
        "grpo@trl": {**bounds, "epsilon": 1e-4, "dual_clip": math.inf},
        "grpo@verl": {**bounds, "epsilon": 1e-6, "dual_clip": 3.0},
        "dapo@trl": {**bounds, "epsilon": 1e-4, "dual_clip": math.inf},
        "dapo@verl": {"clip_low": 0.2, "clip_high": 0.28, "epsilon": 1e-6, "dual_clip": 10.0},
        "dr_grpo": bounds,
        "dr_grpo@verl": {**bounds, "dual_clip": 3.0},
        "gspo@trl": {"clip_low": 3e-4, "clip_high": 4e-4, "epsilon": 1e-4},
        "cispo": {"ratio_min": 0.0, "ratio_max": 5.0, "epsilon": 1e-6},
        "cispo@trl": {"ratio_min": 0.0, "ratio_max": 5.0, "epsilon": 1e-4},
        "cispo@scalerl": {"ratio_min": 0.0, "ratio_max": 5.0, "epsilon": 1e-6},
        "maxrl": {**bounds, "epsilon": 0.0},
        "maxrl@authors": {**bounds, "epsilon": 1e-6},
        "reinforce_pp@baseline": {**bounds, "group_baseline": True},
        "ppo": {"clip": 0.2, "value_coefficient": 1.0, "value_clip": math.inf, "dual_clip": math.inf},
        "oapl": {"beta_value": 1.0, "beta_policy": 1.0},
        "awr": {"beta": 1.0, "max_weight": 20.0},
        "reinforce": {"baseline": 0.0},
    }  # fmt: skip
    for name, numbers in expected.items():
        config = dialects.choose("objectives", name).config
        assert {option: getattr(config, option) for option in numbers} == numbers, name


def check_the_epsilon_is_added_to_what_divides():
    """Of rewards 1 and 0: the spread is sqrt(1/2), the mean 1/2."""
    pair_G = double([1.0, 0.0])
    for module in (grpo, dapo, gspo, cispo):
        assert close(module.advantages(pair_G, module.Config(epsilon=0.1))[0], 0.5 / (math.sqrt(0.5) + 0.1))
    assert close(maxrl.advantages(pair_G, maxrl.Config(epsilon=0.5)), [0.5, -0.5])
    assert close(grpo.advantages(pair_G, grpo.Config(divide_by_std=False)), [0.5, -0.5])


def check_an_absurd_ratio_is_cut_at_e_to_the_20():
    streams = one_token(1.0, -1.0)
    for log_ratio, expected in [(30.0, math.exp(20)), (19.0, math.exp(19))]:
        absurd = replace(streams, new_logprobs_T=streams.old_logprobs_T + log_ratio)
        found = grpo.loss(absurd, grpo.Config()).total
        assert abs(float(found) / expected - 1) < 1e-9
        of_ref = kl.k3(absurd.new_logprobs_T, absurd.new_logprobs_T + log_ratio)
        assert abs(float(of_ref) / expected - 1) < 1e-6
    absurd = replace(streams, new_logprobs_T=streams.old_logprobs_T - 30.0)
    assert abs(float(cispo.loss(absurd, cispo.Config()).metrics["ratio"]) / math.exp(-20) - 1) < 1e-9


CLIP_TABLE = [  # ratio, advantage, loss, whether the token keeps its gradient; bounds 0.2 and 0.3, dual clip 3
    (1.5, +1.0, -1.3, False),  # too far up: clipped to 1 + clip_high
    (1.5, -1.0, +1.5, True),  # too far up on a bad token: min() is pessimistic, not clipped
    (0.5, +1.0, -0.5, True),  # moved down on a good token: not clipped
    (0.5, -1.0, +0.8, False),  # too far down: clipped to 1 - clip_low
    (1.1, +1.0, -1.1, True),
    (0.9, -2.0, +1.8, True),
    (4.0, -2.0, +6.0, False),  # far too far up on a bad token: the second clip
    (4.0, +2.0, -2.6, False),  # which leaves good tokens alone
]


def check_clip_table():
    for module in (grpo, dapo, dr_grpo):
        for row in CLIP_TABLE:
            assert_clips(module, module.Config(clip_low=0.2, clip_high=0.3, dual_clip=3.0), *row)
    for module in (gspo, maxrl, reinforce_pp):
        for row in CLIP_TABLE[:6]:
            assert_clips(module, module.Config(clip_low=0.2, clip_high=0.3), *row)
    assert_clips(ppo, ppo.Config(clip=0.25, dual_clip=3.0), 1.5, +1.0, -1.25, False)
    assert_clips(ppo, ppo.Config(clip=0.25, dual_clip=3.0), 0.5, -1.0, +0.75, False)
    assert_clips(ppo, ppo.Config(clip=0.25, dual_clip=3.0), 4.0, -1.0, +3.0, False)
    assert_clips(ppo, ppo.Config(clip=0.25), 4.0, -1.0, +4.0, True)


def assert_clips(module, config, ratio, advantage, expected, has_gradient):
    streams = one_token(ratio, advantage)
    loss = module.loss(streams, config)
    assert close(loss.total, expected), (module.__name__, ratio, advantage)
    assert close(gradient(loss.total, streams), [expected if has_gradient else 0.0]), (module.__name__, ratio)
    assert close(loss.metrics["clip_fraction"], 0.0 if has_gradient else 1.0)


def check_value_loss_is_the_weighted_squared_error_of_the_worse_value():
    values_T, returns_T, weights_T = double([1.0, 2.0, 5.0]), double([0.5, 4.0, 5.0]), double([1.0, 0.5, 0.0])
    config = ppo.Config(value_coefficient=0.1, value_clip=0.5)
    plain = ppo.value_loss(values_T, returns_T, weights_T, config)
    assert close(plain.total, 0.1 * (0.25 + 0.5 * 4.0))
    assert close(plain.metrics["value_error"], 2.25)
    clipped = ppo.value_loss(values_T, returns_T, weights_T, config, double([2.0, 1.0, 5.0]))
    assert close(clipped.total, 0.1 * (1.0 + 0.5 * 6.25))  # held at 1.5 and at 1.5


def check_what_values_are_trained_towards_is_a_constant():
    values_T, returns_T = double([1.0]).requires_grad_(), double([0.5]).requires_grad_()
    for old_values_T in (None, double([3.0])):
        loss = ppo.value_loss(values_T, returns_T, double([1.0]), ppo.Config(value_clip=0.5), old_values_T)
        assert torch.autograd.grad(loss.total, returns_T, allow_unused=True)[0] is None
        assert not loss.metrics["value_error"].requires_grad


def check_gspo_is_the_golden_one():
    streams, global_weight = batch_of(gspo.AGGREGATION)
    assert close(gspo.sequence_ratio(streams), double(GOLDEN["gspo"]["s"])[streams.sequence_T])
    total = gspo.loss(streams, gspo.Config()).total
    assert close(total / global_weight, GOLDEN["gspo"]["loss_eps_low3e-4_high4e-4"])


def check_cispo_is_the_golden_one_and_so_are_its_dialects():
    configs = {
        "ratio_clipped_to_[0,5]": [cispo.Config(), dialects.choose("objectives", "cispo@trl").config],
        "ratio_clipped_to_[0.8,1.2]": [dialects.choose("objectives", "cispo@verl").config],
        "ratio_clipped_to_max_1.272": [cispo.Config(ratio_max=1.272)],
    }
    for key, several in configs.items():
        for config in several:
            streams, global_weight = batch_of(cispo.AGGREGATION)
            total = cispo.loss(streams, config).total
            assert close(total / global_weight, GOLDEN["cispo_global_token_mean"][key]), key


def check_cispo_bounds_the_weight_of_the_gradient_and_keeps_it():
    for ratio, advantage, expected in [(1.5, 1.0, -1.3), (1.5, -1.0, 1.3), (0.5, 1.0, -0.8), (1.1, 1.0, -1.1)]:
        streams = one_token(ratio, advantage)
        total = cispo.loss(streams, cispo.Config(ratio_min=0.8, ratio_max=1.3)).total
        assert close(gradient(total, streams), [expected])


def check_the_sampler_is_the_denominator_where_it_should_be():
    streams, _ = batch_of()
    swapped = replace(streams, old_logprobs_T=streams.rollout_logprobs_T, rollout_logprobs_T=streams.old_logprobs_T)
    for module in (cispo, grpo):
        to_sampler = module.loss(streams, module.Config(ratio_to_sampler=True)).total
        assert close(to_sampler, module.loss(swapped, module.Config()).total)
        assert not close(to_sampler, module.loss(streams, module.Config()).total)


def check_cross_entropy_is_the_mean_negative_log_probability():
    streams, global_weight = batch_of(sft.AGGREGATION)
    loss = sft.loss(streams, sft.Config())
    assert close(loss.total / global_weight, 7.6 / 10)
    assert close(loss.metrics["surprise"], 7.6)
    halved = replace(streams, weights_T=streams.weights_T / 2)
    assert close(sft.loss(halved, sft.Config()).total, 3.8)


def check_policy_gradient_treats_a_reply_as_one_action():
    for module in (reinforce, rloo):
        streams, global_weight = batch_of(module.AGGREGATION)
        total = module.loss(streams, module.Config()).total
        sums = [-1.7, -2.9, -2.6, -0.4]
        expected = -sum(a * logp for a, logp in zip(SCORES, sums, strict=True)) / 4
        assert close(total / global_weight, expected)
        streams, global_weight = batch_of("seq_mean_token_mean")
        total = module.loss(streams, module.Config()).total
        means = [logp / length for logp, length in zip(sums, [3, 2, 4, 1], strict=True)]
        expected = -sum(a * logp for a, logp in zip(SCORES, means, strict=True)) / 4
        assert close(total / global_weight, expected)


def check_oapl_is_the_squared_residual_of_each_reply():
    streams, global_weight = batch_of(oapl.AGGREGATION)
    log_ratios = [1.5, -1.08, 1.31, -0.28]  # of new and rollout, summed over each reply
    residuals = [0.5 * ratio - score for ratio, score in zip(log_ratios, SCORES, strict=True)]
    total = oapl.loss(streams, oapl.Config(beta_policy=0.5)).total
    assert close(total / global_weight, sum(r * r for r in residuals) / 4)
    expected_T = 2 * 0.5 * double(residuals)[streams.sequence_T] / 4
    assert close(gradient(total / global_weight, streams), expected_T)


def check_awr_weighs_imitation_by_the_exponential_advantage():
    for advantage, beta, weight in [(1.0, 0.5, math.exp(2)), (-1.0, 0.5, math.exp(-2)), (9.0, 1.0, 20.0)]:
        streams = one_token(1.5, advantage)
        loss = awr.loss(streams, awr.Config(beta=beta))
        assert close(loss.total, -weight * (math.log(1.5) - 1))
        assert close(gradient(loss.total, streams), [-weight])


def check_distillation_follows_the_teacher_token_by_token():
    teacher = double([-1.4])
    for ratio, used in [(1.5, 1.5), (3.0, 2.0), (0.5, 0.5)]:
        streams = replace(one_token(ratio, 0.0), ref_logprobs_T=teacher)
        loss = opd.loss(streams, opd.Config())
        reverse_kl = math.log(ratio) - 1 + 1.4
        assert close(gradient(loss.total, streams), [used * reverse_kl])
        assert close(loss.metrics["reverse_kl"], reverse_kl)


def check_surprise_and_measurements_are_of_the_sampled_tokens():
    for module in (grpo, dapo, dr_grpo, gspo, cispo, ppo, maxrl, reinforce_pp, reinforce, rloo, oapl, awr, opd):
        streams, _ = batch_of()
        metrics = module.loss(streams, module.Config()).metrics
        assert close(metrics["surprise"], 7.6), module.__name__
        assert not any(value.requires_grad for value in metrics.values()), module.__name__


def check_correction_multiplies_the_advantages():
    streams, _ = batch_of()
    corrected = correction.apply(streams, correction.tis(streams))
    assert close(corrected.advantages_T, streams.advantages_T * flat(GOLDEN["rollout_correction"]["tis_cap2"]))


def check_terms_add_up():
    streams, _ = batch_of()
    one = dapo.loss(streams, dapo.Config())
    both = ops.add(one, replace(one, metrics={}))
    assert close(both.total, 2 * one.total)
