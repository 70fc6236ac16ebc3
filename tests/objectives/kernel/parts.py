"""Parts: aggregation, correction, KL, values and lengths."""

import math

import torch

from burnish.objectives import Streams, aggregation, correction, gae, gkd, kl, overlong
from tests.objectives.kernel.batch import GOLDEN, batch_of, close, double, flat

CORRECTION = GOLDEN["rollout_correction"]
LENGTHS = [3, 2, 4, 1]


def check_weights_and_divisor():
    for kind, weights, global_weight in [
        ("token_mean", [1] * 10, 10),
        ("seq_mean_token_mean", [1 / 3] * 3 + [1 / 2] * 2 + [1 / 4] * 4 + [1], 4),
        ("seq_mean_token_sum", [1] * 10, 4),
        ("sum_over_max_length", [1] * 10, 32),
        ("pair_mean", [1 / 6] * 3 + [1 / 4] * 2 + [1 / 8] * 4 + [1 / 2], 2),
    ]:
        found = aggregation.weigh(kind, LENGTHS, max_length=8, dtype=torch.float64)
        assert close(found.weights_T, weights), kind
        assert found.global_weight == global_weight, kind
        assert aggregation.weigh(kind, [3, 0], max_length=8).global_weight == (
            aggregation.weigh(kind, [3], max_length=8).global_weight
        )


def check_token_correction_is_the_golden_one():
    streams = batch_of().streams
    assert close(correction.tis(streams, cap=2.0), flat(CORRECTION["tis_cap2"]))
    assert close(correction.icepop(streams, low=0.5, high=2.0), flat(CORRECTION["icepop_0.5_2"]))


def check_sequence_correction_is_the_golden_one():
    streams = batch_of().streams
    product_S, geometric_S = double(CORRECTION["sequence_product"]), double(CORRECTION["sequence_geometric"])
    assert close(correction.sequence_product(streams), product_S[streams.sequence_T])
    assert close(correction.sequence_geometric(streams), geometric_S[streams.sequence_T])
    assert close(correction.sequence_product(streams, cap=1.5), product_S.clamp(max=1.5)[streams.sequence_T])


def check_sequence_masks_drop_sequences_outside_their_band():
    streams = batch_of().streams
    kept_T = double([2.013753, 0, 0, 1.020201])[streams.sequence_T]
    assert close(correction.sequence_mask(streams, low=0.95, high=3.0), kept_T)
    kept_T = double([1, 0, 0, 1])[streams.sequence_T]
    assert close(correction.geometric_mask(streams, low=0.97, high=1.3), kept_T)
    both_T = correction.geometric_mask_tis(streams, low=0.97, high=1.3)
    assert close(both_T, kept_T * flat(CORRECTION["tis_cap2"]))


def check_icepop_drops_tokens_on_both_sides_of_its_band():
    streams, _ = batch_of("token_mean", (1,))
    apart = type(streams)(
        new_logprobs_T=streams.new_logprobs_T, weights_T=streams.weights_T, sequence_T=streams.sequence_T,
        old_logprobs_T=double([0.3, 6.0]).log(), rollout_logprobs_T=double([0.0, 0.0]),
    )  # fmt: skip
    assert close(correction.icepop(apart), [0.0, 0.0])
    assert close(correction.icepop(apart, low=0.2, high=7.0), [0.3, 6.0])


def apart(old: list[float], rollout: list[float], *, leaks: bool = False) -> Streams:
    """One sequence of tokens whose two probabilities are these."""
    old_T, rollout_T = (double(values).log().requires_grad_(leaks) for values in (old, rollout))
    return Streams(
        new_logprobs_T=old_T, weights_T=torch.ones_like(old_T), sequence_T=torch.zeros(len(old), dtype=torch.int64),
        old_logprobs_T=old_T, rollout_logprobs_T=rollout_T,
    )  # fmt: skip


def check_corrections_have_their_published_bounds():
    ratios = [0.49, 0.51, 1.9, 2.1, 4.9, 5.1]
    streams = apart(ratios, [1.0] * 6)
    assert close(correction.tis(streams), [0.49, 0.51, 1.9, 2.0, 2.0, 2.0])
    assert close(correction.icepop(streams), [0.0, 0.51, 1.9, 2.1, 4.9, 0.0])
    for ratio, masked, geometric in [(0.49, 0.49, 0.0), (0.51, 0.51, 1.0), (1.99, 1.99, 1.0), (2.01, 2.01, 0.0),
                                     (2.99, 2.99, 0.0), (3.01, 0.0, 0.0), (0.001, 0.001, 0.0)]:  # fmt: skip
        streams = apart([ratio], [1.0])
        assert close(correction.sequence_mask(streams), [masked]), ratio
        assert close(correction.geometric_mask(streams), [geometric]), ratio
        assert close(correction.geometric_mask_tis(streams), [geometric * ratio]), ratio
        assert close(correction.sequence_product(streams), [ratio])
        assert close(correction.sequence_geometric(streams), [ratio])


def check_corrections_are_constants():
    streams = apart([0.9, 1.2], [1.0, 1.0], leaks=True)
    for function in (correction.tis, correction.icepop, correction.sequence_product, correction.sequence_geometric,
                     correction.sequence_mask, correction.geometric_mask, correction.geometric_mask_tis):  # fmt: skip
        assert not function(streams).requires_grad, function.__name__


def check_kl_estimates_are_the_golden_ones():
    streams, global_weight = batch_of("token_mean")
    for name, estimate in {"k1": kl.k1, "k2": kl.k2, "k3": kl.k3}.items():
        found_T = estimate(streams.new_logprobs_T, streams.ref_logprobs_T)
        assert close(found_T.sum() / global_weight, GOLDEN["kl_to_ref_token_mean"][name]), name


def check_kl_penalty_is_the_scaled_estimate_and_reports_k3():
    for kind in ("k2", "k3"):
        streams, global_weight = batch_of("token_mean")
        term = kl.penalty(streams, kind, 0.5)
        assert close(term.total / global_weight, 0.5 * GOLDEN["kl_to_ref_token_mean"][kind])
        assert close(term.metrics["kl_ref"] / global_weight, GOLDEN["kl_to_ref_token_mean"]["k3"])


def check_kl_in_the_reward_is_summed_over_the_reply():
    streams, _ = batch_of("token_mean", (0,))
    found = kl.in_reward(streams.new_logprobs_T, streams.ref_logprobs_T)
    assert close(found, (-0.5 - 1.0 - 0.2) - (-0.7 - 0.8 - 0.5))
    assert not found.requires_grad


def check_expected_gradient_of_each_kl_estimator_as_a_loss():
    facts = GOLDEN["kl_gradient_facts"]
    keys = {kl.k1: "expected_grad_of_k1_as_loss", kl.k2: "expected_grad_of_k2_as_loss",
            kl.k3: "expected_grad_of_k3_as_loss_(=grad KL(Q||P))"}  # fmt: skip
    for estimate, key in keys.items():
        logits_V = double(facts["softmax_P"]).log().requires_grad_()
        logprobs_V = logits_V.log_softmax(-1)
        (logprobs_V.exp().detach() * estimate(logprobs_V, double(facts["softmax_Q"]).log())).sum().backward()
        assert close(logits_V.grad, facts[key]), key


def check_gkd_divergence_and_its_limits():
    facts = GOLDEN["kl_gradient_facts"]
    student_V, teacher_V = double(facts["softmax_P"]).log().requires_grad_(), double(facts["softmax_Q"]).log()
    p, q = facts["softmax_P"], facts["softmax_Q"]

    def divergence(a, b):
        return sum(x * (double(x) / double(y)).log() for x, y in zip(a, b, strict=True))

    mixed = [0.3 * y + 0.7 * x for x, y in zip(p, q, strict=True)]
    expected = 0.3 * divergence(q, mixed) + 0.7 * divergence(p, mixed)
    assert close(gkd.divergence(student_V[None], teacher_V[None], beta=0.3), expected[None])
    assert close(gkd.divergence(student_V[None], teacher_V[None], beta=0.0), divergence(q, p)[None])
    assert close(gkd.divergence(student_V[None], teacher_V[None], beta=1.0), divergence(p, q)[None])


def check_gkd_is_even_handed_unless_told_and_leaves_the_teacher_alone():
    facts = GOLDEN["kl_gradient_facts"]
    student_V, teacher_V = (double(facts[name]).log().requires_grad_() for name in ("softmax_P", "softmax_Q"))
    found = gkd.divergence(student_V[None], teacher_V[None])
    assert close(found, gkd.divergence(student_V[None], teacher_V[None], beta=0.5))
    assert close(found, gkd.divergence(teacher_V[None], student_V[None]))
    gkd.divergence(student_V[None], teacher_V[None], beta=0.3).sum().backward()
    assert student_V.grad is not None
    assert teacher_V.grad is None


def check_gkd_of_a_teacher_that_rules_a_token_out():
    student_V = double([0.25, 0.25, 0.5]).log().requires_grad_()
    teacher_V = double([0.5, 0.5, 0.0]).log()
    found = gkd.divergence(student_V[None], teacher_V[None], beta=0.0)
    assert close(found, [math.log(2)])
    mixed = 0.5 * math.log(0.5 / 0.375) + 0.5 * (0.5 * math.log(0.25 / 0.375) + 0.5 * math.log(2))
    found = found + gkd.divergence(student_V[None], teacher_V[None], beta=0.5)
    assert close(found, [math.log(2) + mixed])
    found.sum().backward()
    assert student_V.grad.isfinite().all()


def check_gae_is_the_golden_one():
    case = GOLDEN["gae_gamma1_lambda0.95"]
    found = gae.estimate(double(case["rewards"]), double(case["values"]), torch.ones(3))
    assert close(found.advantages_T, case["expected"])
    assert close(found.returns_T, [0.94625, 0.975, 1.0])


def check_returns_are_constants():
    found = gae.estimate(double([0.0, 1.0]), double([0.5, 0.25]).requires_grad_(), torch.ones(2))
    assert not found.returns_T.requires_grad


def check_gae_steps_over_observation_tokens():
    whole = GOLDEN["gae_gamma1_lambda0.95"]
    case = whole["with_observation_token_at_1"]
    first, last = case["expected_at_action_tokens"]
    found = gae.estimate(double(whole["rewards"]), double(case["values"]), torch.tensor(case["mask"]))
    assert close(found.advantages_T, [first, 0.0, last])
    assert close(found.returns_T, [first + 0.2, 0.0, last + 0.5])


def check_gae_discounts_and_bootstraps():
    """Worked by hand: gamma 0.5, lambda 0 and 1."""
    rewards_T, values_T = double([0.0, 1.0, 2.0]), double([0.5, 0.25, 1.0])
    found = gae.estimate(rewards_T, values_T, torch.ones(3), gamma=0.5, lam=1.0)
    assert close(found.returns_T, [0 + 0.5 * 1 + 0.25 * 2, 1 + 0.5 * 2, 2.0])
    found = gae.estimate(rewards_T, values_T, torch.ones(3), gamma=0.5, lam=0.0, bootstrap=8.0)
    assert close(found.advantages_T, [0.5 * 0.25 - 0.5, 1 + 0.5 * 1.0 - 0.25, 2 + 0.5 * 8 - 1.0])
    found = gae.estimate(rewards_T, values_T, torch.tensor([1, 1, 0]), gamma=1.0, lam=0.0)
    assert close(found.advantages_T, [0.25 - 0.5, 3 - 0.25, 0.0])


def check_a_penalty_may_begin_with_the_first_token_and_nowhere_else():
    assert close(overlong.soft_penalty(3, max_length=4, cache=4), -0.75)
    for cache in (0, 5):
        try:
            overlong.soft_penalty(3, max_length=4, cache=cache)
        except ValueError:
            continue
        raise AssertionError(cache)


def check_overlong_penalty_is_the_golden_one():
    for length, expected in {**GOLDEN["overlong_soft_penalty_max20_cache4"], "3": 0.0}.items():
        assert close(overlong.soft_penalty(int(length), max_length=20, cache=4), expected), length
