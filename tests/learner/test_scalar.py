"""A scalar head reads what a plain forward reads, and a loss over the batch does not see the packing."""

import pytest
import torch

from burnish.learner.packing import Row
from burnish.learner.scalar import ScalarModel, ended
from burnish.models.heads import new_head
from burnish.objectives import bradley_terry
from burnish.objectives.pairs import Pair
from tests.fakes import plain_copy, random_model

PROMPT = tuple(range(10, 40))
REPLIES = [(50, 51, 52), (60,), (70, 71), (80, 81, 82, 83)]
ROWS = [ended(Row(token_ids=(*PROMPT, *reply), was_sampled=(False,) * 30 + (True,) * len(reply))) for reply in REPLIES]


def scalar_model(max_pack_tokens: int = 1000) -> ScalarModel:
    model = random_model("llama").requires_grad_(True)
    parameters = {name: p for name, p in model.named_parameters() if not name.startswith("lm_head")}
    return ScalarModel(model, new_head(model, "reward"), parameters, max_pack_tokens=max_pack_tokens)


def loss(outputs: list[torch.Tensor]) -> torch.Tensor:
    rewards_B = torch.cat(outputs)[:, 0]
    return bradley_terry.of_rewards(Pair(chosen_B=rewards_B[0::2], rejected_B=rewards_B[1::2])).sum()


def test_a_reward_is_read_at_the_last_token_of_the_reply() -> None:
    subject = scalar_model()
    plain = plain_copy(subject.model)
    for reply, output in zip(REPLIES, subject.outputs(ROWS), strict=True):
        hidden = plain.base_model(torch.tensor([[*PROMPT, *reply]])).last_hidden_state[0, -1:]
        torch.testing.assert_close(output, subject.head(hidden), atol=1e-5, rtol=1e-5)


def test_a_value_is_read_before_each_sampled_token() -> None:
    subject = scalar_model()
    row = Row(token_ids=(*PROMPT, 1, 2, 3), was_sampled=(False,) * 30 + (True, False, True))
    hidden = plain_copy(subject.model).base_model(torch.tensor([row.token_ids])).last_hidden_state[0]
    (values,) = subject.outputs([row])
    torch.testing.assert_close(values, subject.head(hidden[[29, 31]]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("max_pack_tokens", [1000, 40, 1])
def test_pairs_in_different_packs_give_the_gradient_of_one_pack(max_pack_tokens: int) -> None:
    whole, split = scalar_model(), scalar_model(max_pack_tokens)
    values = [subject.forward_backward(ROWS, loss, 2.0) for subject in (whole, split)]
    assert values[0] == pytest.approx(values[1], abs=1e-6)
    for name, master in whole.weights.masters.items():
        torch.testing.assert_close(split.weights.masters[name].grad, master.grad, atol=1e-5, rtol=1e-4)


def test_training_on_preferences_ranks_the_preferred_higher() -> None:
    subject = scalar_model()
    losses = []
    for _ in range(5):
        losses.append(subject.forward_backward(ROWS, loss, 2.0))
        subject.weights.step(3e-3)
    rewards = [float(output) for output in subject.outputs(ROWS)]
    assert losses[-1] < losses[0]
    assert rewards[0] > rewards[1]
    assert rewards[2] > rewards[3]
