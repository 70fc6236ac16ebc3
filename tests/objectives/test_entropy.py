"""The bonus raises the entropy of what trains, each token by its weight."""

from dataclasses import replace

import pytest
import torch

from burnish.learner.batch import Batch
from burnish.learner.packing import Row
from burnish.learner.policy import Policy
from burnish.objectives import Loss, Streams, entropy
from tests.fakes import plain_copy, random_model

ROWS = [
    Row(token_ids=(*range(10, 20), *reply), was_sampled=(False,) * 10 + (True,) * len(reply), advantage=1.0)
    for reply in ((30, 31, 32), (40,))
]


def test_the_bonus_is_the_weighted_sum_of_the_entropies() -> None:
    entropies_T = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    weights_T = torch.tensor([1.0, 0.5, 0.0])
    s = Streams(new_logprobs_T=-entropies_T, weights_T=weights_T, sequence_T=torch.arange(3), entropies_T=entropies_T)
    found = entropy.bonus(s, 0.1)
    found.total.backward()
    assert found.total.item() == pytest.approx(-0.2)
    torch.testing.assert_close(entropies_T.grad, -0.1 * weights_T)
    with pytest.raises(ValueError, match=r"reads Streams\.entropies_T"):
        entropy.bonus(replace(s, entropies_T=None), 0.1)


def test_the_gradient_through_a_policy_is_that_of_a_plain_forward() -> None:
    model = random_model("llama").requires_grad_(True)
    plain = plain_copy(model)
    policy = Policy(model, dict(model.named_parameters()), max_pack_tokens=64)
    policy.forward_backward(
        Batch(rows=ROWS, aggregate="token_mean", max_length=1, temperature=0.7), lambda s: entropy.bonus(s, 0.5)
    )
    total = torch.zeros(())
    for row in ROWS:
        logits_T_V = plain(torch.tensor([row.token_ids])).logits[0, row.prompt_length - 1 : -1] / 0.7
        total = total + torch.distributions.Categorical(logits=logits_T_V).entropy().sum()
    (-0.5 * total / 4).backward()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(policy.masters[name].grad, parameter.grad, atol=5e-5, rtol=1e-3)


def test_the_bonus_alone_raises_the_entropy() -> None:
    model = random_model("llama").requires_grad_(True)
    policy = Policy(model, dict(model.named_parameters()))

    def loss(s: Streams) -> Loss:
        return entropy.bonus(s, 1.0)

    found = []
    for _ in range(3):
        found.append(policy.forward_backward(Batch(rows=ROWS, aggregate="token_mean", max_length=1), loss)["entropy"])
        policy.optim_step(1e-5)
    assert found[2] > found[1] > found[0]
