"""A packed row computes what its sequences compute one by one: no cross-contamination, in values and gradients."""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.models.attention import Block, PackedLayout, Span
from burnish.models.forward import check_forward, hidden_states, logits, token_stats
from tests.fakes import ARCHITECTURES, plain_copy, random_model

PREFIXES = [[5, 9, 200, 31, 7, 7, 80, 3, 14, 99], [60, 2, 2], [17] * 12]
MEMBERS = [[[1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11, 12], [13]], [], [[250, 251], [40, 41, 42, 43]]]


def _packed_logits(model: PreTrainedModel) -> list[Tensor]:
    """Logits of each whole sequence (prefix and member), from one packed row."""
    token_ids, positions, blocks, index = [], [], [], []
    for prefix, members in zip(PREFIXES, MEMBERS, strict=True):
        start, spans = len(token_ids), []
        token_ids += prefix
        positions += range(len(prefix))
        for member in members:
            spans.append(Span(len(token_ids), len(member)))
            token_ids += member
            positions += range(len(prefix), len(prefix) + len(member))
        blocks.append(Block(Span(start, len(prefix)), tuple(spans)))
        shared = list(range(start, start + len(prefix)))
        index += [shared + list(range(s.start, s.start + s.length)) for s in spans] or [shared]
    hidden_T_D = hidden_states(model, torch.tensor(token_ids), torch.tensor(positions), PackedLayout(blocks))
    logits_T_V = logits(model, hidden_T_D)
    return [logits_T_V[one] for one in index]


def _separate_logits(model: PreTrainedModel) -> list[Tensor]:
    sequences = [p + m for p, ms in zip(PREFIXES, MEMBERS, strict=True) for m in (ms or [[]])]
    return [model(torch.tensor([ids])).logits[0] for ids in sequences]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packed_equals_separate(architecture: str):
    model = random_model(architecture)
    for packed_T_V, separate_T_V in zip(_packed_logits(model), _separate_logits(plain_copy(model)), strict=True):
        torch.testing.assert_close(packed_T_V, separate_T_V, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packed_gradients_equal_separate_ones(architecture: str):
    model = random_model(architecture).requires_grad_(True)
    plain = plain_copy(model)
    for run, twin in ((_packed_logits, model), (_separate_logits, plain)):
        sum(torch.log_softmax(one, -1)[:, 3].sum() for one in run(twin)).backward()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        scale = theirs.grad.abs().max()
        torch.testing.assert_close(ours.grad / scale, theirs.grad / scale, atol=1e-5, rtol=0, msg=name)


def test_token_stats_are_the_logprob_and_the_entropy_at_a_temperature():
    model = random_model("qwen3")
    hidden_N_D = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    target_ids_N = torch.tensor([3, 1, 4, 1, 5])
    stats = token_stats(model, hidden_N_D, target_ids_N, temperature=0.7)
    exact = torch.distributions.Categorical(logits=logits(model, hidden_N_D) / 0.7)
    torch.testing.assert_close(stats.logprobs_N, exact.log_prob(target_ids_N))
    torch.testing.assert_close(stats.entropies_N, exact.entropy())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_known_architectures_pass_the_check(architecture: str):
    check_forward(random_model(architecture), 1e-4)


def test_an_architecture_with_another_head_is_refused():
    class HalvedHead(type(random_model("llama"))):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            out.logits = out.logits / 2
            return out

    model = random_model("llama")
    model.__class__ = HalvedHead
    with pytest.raises(ConfigError, match="not supported"):
        check_forward(model, 1e-3)
