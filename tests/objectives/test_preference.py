"""Preference losses against the golden numbers."""

import pytest
import torch

from burnish.objectives import preference
from burnish.objectives.preference import Pair


def pair(chosen, rejected) -> Pair:
    as_row = lambda value: torch.tensor([value], dtype=torch.float64, requires_grad=True)  # noqa: E731
    return Pair(chosen_B=as_row(chosen), rejected_B=as_row(rejected))


POLICY, REF, LENGTHS = pair(-12.0, -15.0), pair(-13.0, -14.0), pair(6.0, 8.0)


def test_these_inputs_are_the_golden_ones(golden):
    assert golden["preference"]["inputs"] == {
        "logp_chosen": -12, "logp_rejected": -15, "ref_chosen": -13, "ref_rejected": -14,
        "len_chosen": 6, "len_rejected": 8, "beta": 0.1,
    }  # fmt: skip


PAIR_LOSSES = {
    "dpo": lambda policy: preference.dpo(policy, REF),
    "cdpo_label_smoothing_0.1": lambda policy: preference.dpo(policy, REF, label_smoothing=0.1),
    "ipo_token_sum": lambda policy: preference.ipo(policy, REF),
    "ipo_length_normalised": lambda policy: preference.ipo(policy, REF, lengths=LENGTHS),
    "simpo_beta2_gamma0.5": lambda policy: preference.simpo(policy, LENGTHS),
    "orpo_odds_ratio_term": lambda policy: preference.orpo_term(policy, LENGTHS),
}


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_pair_loss_is_the_golden_one(name, golden, close):
    assert close(PAIR_LOSSES[name](POLICY).detach(), [golden["preference"][name]])


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_pair_loss_has_the_gradient_of_finite_differences_and_prefers_the_chosen(name):
    def loss(chosen_B, rejected_B):
        return PAIR_LOSSES[name](Pair(chosen_B=chosen_B, rejected_B=rejected_B))

    assert torch.autograd.gradcheck(loss, (POLICY.chosen_B, POLICY.rejected_B))
    up, down = torch.autograd.grad(loss(POLICY.chosen_B, POLICY.rejected_B), (POLICY.chosen_B, POLICY.rejected_B))
    assert up < 0 < down


@pytest.mark.parametrize(
    ("policy", "ref", "was_desirable", "key"), [(-12.0, -13.0, True, "desirable"), (-15.0, -14.0, False, "undesirable")]
)
def test_kto_loss_is_the_golden_one(policy, ref, was_desirable, key, golden, close):
    as_row = torch.tensor([policy], dtype=torch.float64, requires_grad=True)
    z0 = torch.tensor(0.4, dtype=torch.float64)

    def loss(policy_B):
        return preference.kto(policy_B, torch.tensor([ref], dtype=torch.float64), torch.tensor([was_desirable]), z0)

    assert close(loss(as_row).detach(), [golden["preference"]["kto_z0_0.4"][key]])
    assert torch.autograd.gradcheck(loss, as_row)


def test_kto_weighs_gains_and_losses_apart(close):
    same, labels = torch.zeros(2, dtype=torch.float64), torch.tensor([True, False])
    found = preference.kto(same, same, labels, torch.tensor(0.0), desirable_weight=3.0, undesirable_weight=5.0)
    assert close(found, [1.5, 2.5])


@pytest.mark.parametrize(("margin", "key"), [(0.0, "bradley_terry_1.3_vs_0.4"), (0.5, "bradley_terry_margin0.5")])
def test_reward_model_loss_is_the_golden_one(margin, key, golden, close):
    assert close(preference.bradley_terry(pair(1.3, 0.4), margin).detach(), [golden["preference"][key]])


def test_reward_model_loss_has_the_gradient_of_finite_differences():
    rewards = pair(1.3, 0.4)
    assert torch.autograd.gradcheck(
        lambda chosen_B, rejected_B: preference.bradley_terry(Pair(chosen_B=chosen_B, rejected_B=rejected_B), 0.5),
        (rewards.chosen_B, rewards.rejected_B),
    )


def test_the_reference_point_of_kto_is_not_trained():
    policy_B, z0 = torch.ones(1, requires_grad=True), torch.tensor(0.4, requires_grad=True)
    preference.kto(policy_B, torch.zeros(1), torch.tensor([True]), z0).sum().backward()
    assert z0.grad is None
    assert policy_B.grad < 0
