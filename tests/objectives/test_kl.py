"""KL estimators: their values, and what each trains when it is used as a loss."""

import pytest
import torch

from burnish.objectives import kl

ESTIMATORS = {"k1": kl.k1, "k2": kl.k2, "k3": kl.k3}


def policy_and_reference(golden):
    facts = golden["kl_gradient_facts"]
    logits_V = torch.tensor(facts["softmax_P"], dtype=torch.float64).log().requires_grad_()
    return logits_V, torch.tensor(facts["softmax_Q"], dtype=torch.float64).log()


def test_k2_alone_has_the_gradient_of_the_divergence(golden, close):
    logits_V, ref_logprobs_V = policy_and_reference(golden)
    logprobs_V = logits_V.log_softmax(-1)
    (logprobs_V.exp() * (logprobs_V - ref_logprobs_V)).sum().backward()
    facts = golden["kl_gradient_facts"]
    assert close(logits_V.grad, facts["true_grad_KL(P||Q)_wrt_logits"])
    assert close(logits_V.grad, facts["expected_grad_of_k2_as_loss"])
    assert not close(logits_V.grad, facts["expected_grad_of_k3_as_loss_(=grad KL(Q||P))"])


@pytest.mark.parametrize(("name", "is_unbiased"), [("k1", True), ("k2", False), ("k3", True)])
def test_k1_and_k3_are_unbiased_in_value(name, is_unbiased, golden, close):
    logits_V, ref_logprobs_V = policy_and_reference(golden)
    logprobs_V = logits_V.detach().log_softmax(-1)
    true_kl = (logprobs_V.exp() * (logprobs_V - ref_logprobs_V)).sum()
    assert close((logprobs_V.exp() * ESTIMATORS[name](logprobs_V, ref_logprobs_V)).sum(), true_kl) == is_unbiased


@pytest.mark.parametrize("kind", ["k2", "k3"])
def test_gradient_of_the_penalty_matches_finite_differences(kind, batch_of):
    streams, _ = batch_of()

    def total(new_logprobs_T):
        return kl.penalty(type(streams)(new_logprobs_T=new_logprobs_T, weights_T=streams.weights_T,
                                        sequence_T=streams.sequence_T, ref_logprobs_T=streams.ref_logprobs_T),
                          kind, 0.3).total  # fmt: skip

    assert torch.autograd.gradcheck(total, streams.new_logprobs_T)


def test_penalty_refuses_k1_and_says_where_it_belongs(batch_of):
    with pytest.raises(ValueError, match="no gradient in expectation: subtract"):
        kl.penalty(batch_of().streams, "k1", 0.1)


def test_k3_is_exact_where_the_policies_almost_agree():
    new_logprobs_T = torch.tensor([-1.0], dtype=torch.float32)
    ref_logprobs_T = new_logprobs_T + 2.0**-12
    assert kl.k3(new_logprobs_T, ref_logprobs_T).item() == pytest.approx(2.0**-25, rel=1e-3)


def test_expected_kl_in_the_reward_has_the_gradient_of_the_divergence(golden, close):
    """REINFORCE on -k1: the score function times a constant k1, in expectation over the vocabulary."""
    logits_V, ref_logprobs_V = policy_and_reference(golden)
    logprobs_V = logits_V.log_softmax(-1)
    costs_V = torch.stack([kl.in_reward(p[None], q[None]) for p, q in zip(logprobs_V, ref_logprobs_V, strict=True)])
    (logprobs_V.exp().detach() * costs_V * logprobs_V).sum().backward()
    assert close(logits_V.grad, golden["kl_gradient_facts"]["true_grad_KL(P||Q)_wrt_logits"])


def test_top_k_over_the_whole_vocabulary_is_the_divergence_and_its_gradient():
    torch.manual_seed(1)
    logits_T_V = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    ref_T_V = torch.randn(3, 6, dtype=torch.float64).log_softmax(-1)
    exact = (logits_T_V.softmax(-1) * (logits_T_V.log_softmax(-1) - ref_T_V)).sum()
    (wanted,) = torch.autograd.grad(exact, logits_T_V)
    found = kl.top_k(logits_T_V.log_softmax(-1), ref_T_V).sum()
    (gradient,) = torch.autograd.grad(found, logits_T_V)
    torch.testing.assert_close(found, exact)
    torch.testing.assert_close(gradient, wanted)


def test_top_k_takes_all_other_tokens_as_one():
    """By hand: the policy has 1/2, 1/4 and a rest of 1/4, the reference 1/4, 1/4 and a rest of 1/2."""
    ours, ref = torch.tensor([[0.5, 0.25]]).double().log(), torch.tensor([[0.25, 0.25]]).double().log()
    by_hand = 0.5 * torch.tensor(2.0).double().log() + 0.25 * torch.tensor(0.5).double().log()
    torch.testing.assert_close(kl.top_k(ours, ref), by_hand[None])


def test_top_k_is_zero_and_finite_where_k_tokens_have_it_all():
    sure = torch.tensor([[0.0, -40.0]], requires_grad=True)
    found = kl.top_k(sure, sure.detach())
    found.sum().backward()
    assert float(found.detach()) == pytest.approx(0.0, abs=1e-6)
    assert sure.grad.isfinite().all()
