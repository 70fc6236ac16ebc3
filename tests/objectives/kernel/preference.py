"""Losses on preferences: golden numbers, from sums that lie spread over tokens."""

import math
from dataclasses import replace

import torch

from burnish.objectives import Streams, aggregation, bradley_terry, dialects, pairs
from burnish.objectives.preferences import dpo, ipo, kto, orpo, simpo, slic
from tests.objectives.kernel.batch import GOLDEN, close, double, gradient

EXPECTED = GOLDEN["preference"]
CHOSEN, REJECTED = [-1.0, -3.0, -0.5, -2.5, -4.0, -1.0], [-2.0, -1.0, -3.0, -1.5, -0.5, -2.0, -4.0, -1.0]


def golden_pair(kind: aggregation.Kind = "pair_mean", *, order=("chosen", "rejected")) -> Streams:
    """Sums -12 (6 tokens) and -15 (8 tokens), references -13 and -14."""
    logprobs = {"chosen": CHOSEN, "rejected": REJECTED}
    ref_change = {"chosen": -1.0, "rejected": 1.0}
    lengths = [len(logprobs[name]) for name in order]
    repeats = torch.tensor(lengths)
    new = double([value for name in order for value in logprobs[name]])
    change = double([ref_change[name] / len(logprobs[name]) for name in order])
    return Streams(
        new_logprobs_T=new.requires_grad_(),
        ref_logprobs_T=new.detach() + change.repeat_interleave(repeats),
        advantages_T=double([1.0 if name == "chosen" else -1.0 for name in order]).repeat_interleave(repeats),
        weights_T=aggregation.weigh(kind, lengths, max_length=1, dtype=torch.float64).weights_T,
        sequence_T=torch.arange(2).repeat_interleave(repeats),
    )


def check_pair_losses_are_the_golden_ones():
    cases = [
        (dpo, dpo.Config(), EXPECTED["dpo"]),
        (dpo, choice("dpo@cdpo"), EXPECTED["cdpo_label_smoothing_0.1"]),
        (ipo, choice("ipo@sum"), EXPECTED["ipo_token_sum"]),
        (ipo, choice("ipo@mean"), EXPECTED["ipo_length_normalised"]),
        (simpo, simpo.Config(), EXPECTED["simpo_beta2_gamma0.5"]),
        (orpo, orpo.Config(), 2.0 + 0.1 * EXPECTED["orpo_odds_ratio_term"]),  # 12 / 6, and the weighed term
        (dpo, choice("dpo@robust"), (0.9 * 0.5981388693815918 - 0.1 * 0.7981388693815918) / 0.8),
        (slic, slic.Config(delta=5.0), 5.0 - 3.0 + 0.1 * 2.0),
        (slic, slic.Config(), 0.1 * 2.0),  # ahead by 3 is enough
        (slic, choice("slic@trl"), 1 - 0.1 * 2),
    ]
    for module, config, expected in cases:
        for order in (("chosen", "rejected"), ("rejected", "chosen")):
            loss = module.loss(golden_pair(order=order), config)
            assert close(loss.total, expected), (module.__name__, config)


def check_pairs_of_several_lengths_add_up():
    """Two pairs with their own margins: sums over pairs, of the loss and of each metric."""
    first, second = golden_pair(), golden_pair(order=("rejected", "chosen"))
    both = Streams(
        new_logprobs_T=torch.cat([first.new_logprobs_T, 2 * second.new_logprobs_T]),
        ref_logprobs_T=torch.cat([first.ref_logprobs_T, 2 * second.ref_logprobs_T]),
        advantages_T=torch.cat([first.advantages_T, second.advantages_T]),
        weights_T=torch.cat([first.weights_T, second.weights_T]),
        sequence_T=torch.cat([first.sequence_T, 2 + second.sequence_T]),
    )
    loss = dpo.loss(both, dpo.Config())
    assert close(loss.total, EXPECTED["dpo"] + math.log1p(math.exp(-0.4)))
    expected = {"accuracy": 2.0, "margin": 0.6, "reward_chosen": 0.3, "reward_rejected": -0.3}
    assert all(close(loss.metrics[name], value) for name, value in expected.items())
    assert not any(value.requires_grad for value in loss.metrics.values())


def check_even_replies_prefer_nobody():
    streams = golden_pair()
    even = replace(streams, ref_logprobs_T=streams.new_logprobs_T.detach())
    assert close(dpo.loss(even, dpo.Config()).metrics["accuracy"], 0.0)


def choice(name):
    return dialects.choose("preferences", name).config


def check_measured_margins_are_what_is_compared():
    means = -2 + 15 / 8  # the rejected reply is likelier a token
    for module, margin in [(dpo, 0.1 * 2), (ipo, 2.0), (simpo, 2 * means), (orpo, means), (slic, 3.0)]:
        metrics = module.loss(golden_pair(), module.Config()).metrics
        assert close(metrics["margin"], margin), module.__name__
        assert close(metrics["accuracy"], float(margin > 0)), module.__name__
        assert close(metrics["reward_chosen"] - metrics["reward_rejected"], margin), module.__name__
    assert close(dpo.loss(golden_pair(), dpo.Config()).metrics["reward_rejected"], -0.1)


def check_gradients_pull_the_pair_apart():
    for module in (dpo, ipo, simpo, orpo):
        streams = golden_pair()
        found_T = gradient(module.loss(streams, module.Config()).total, streams)
        assert (found_T[:6] < 0).all(), module.__name__
        assert (found_T[6:] > 0).all(), module.__name__


def check_a_pair_that_lost_a_member_is_no_number():
    streams = golden_pair()
    lost = replace(streams, weights_T=streams.weights_T * (streams.sequence_T == 0))
    assert pairs.sums(streams.new_logprobs_T, lost).rejected_B.isnan().all()


def check_kto_is_the_golden_one():
    config = kto.Config(z0=0.4)
    both = EXPECTED["kto_z0_0.4"]
    loss = kto.loss(golden_pair("seq_mean_token_mean"), config)
    assert close(loss.total, both["desirable"] + both["undesirable"])
    weighed = replace(config, desirable_weight=3.0, undesirable_weight=5.0)
    loss = kto.loss(golden_pair("seq_mean_token_mean"), weighed)
    assert close(loss.total, 3 * both["desirable"] + 5 * both["undesirable"])
    assert close(loss.metrics["accuracy"], 2.0)
    assert close(loss.metrics["margin"], 0.2)


def check_the_reference_point_of_kto_is_never_negative():
    assert close(kto.reference_point(double([0.5, 0.3])), 0.4)
    assert kto.reference_point(double([-0.5, 0.1])) == 0.0


def check_reward_model_losses_are_the_golden_ones():
    rewards = pairs.Pair(chosen_B=double([1.3]), rejected_B=double([0.4]))
    assert close(bradley_terry.of_rewards(rewards), [EXPECTED["bradley_terry_1.3_vs_0.4"]])
    assert close(bradley_terry.of_rewards(rewards, margin_B=0.5), [EXPECTED["bradley_terry_margin0.5"]])
    centred = EXPECTED["bradley_terry_1.3_vs_0.4"] + 0.01 * 1.7**2
    assert close(bradley_terry.of_rewards(rewards, centering=0.01), [centred])
