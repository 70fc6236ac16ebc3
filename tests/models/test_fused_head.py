"""The fused head gives the numbers and gradients of the plain one, and never holds logits of all tokens."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from burnish.models import fused_head
from burnish.models.fused_head import Head, head_stats, top_tokens
from burnish.models.kernels.rows import rows_for
from tests.models.largest import Largest

N, D, V = 600, 8, 50
IDS_N_K = torch.randint(V, (N, 3), generator=torch.Generator().manual_seed(1))
OF_ENTROPIES_N = torch.randn(N, generator=torch.Generator().manual_seed(9)).double()
FROM_ABOVE_N_K = torch.randn(N, 3, generator=torch.Generator().manual_seed(2)).double()


@pytest.fixture(params=["compiled rows", "torch"], autouse=True)
def by(request, monkeypatch) -> None:
    """Both ways that a processor has."""
    if request.param == "torch":
        monkeypatch.setattr(fused_head, "rows_for", lambda _: None)
    elif rows_for(torch.zeros(1)) is None:
        pytest.skip("nothing compiles here")


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def plain_logprobs(head: Head, hidden_N_D: Tensor) -> Tensor:
    logits_N_V = hidden_N_D @ head.weight_V_D.T
    if head.bias_V is not None:
        logits_N_V = logits_N_V + head.bias_V
    if head.cap is not None:
        logits_N_V = head.cap * torch.tanh(logits_N_V / head.cap)
    return torch.log_softmax(logits_N_V / head.temperature, -1)


@pytest.mark.parametrize("cap", [None, 3.0])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("head_trains", [False, True])
@pytest.mark.parametrize("differentiates_entropies", [False, True])
def test_values_and_gradients_are_those_of_the_plain_head(
    cap: float | None, has_bias: bool, head_trains: bool, differentiates_entropies: bool
) -> None:
    def head_and_hidden(dtype: torch.dtype) -> tuple[Head, Tensor]:
        weight_V_D = drawn(V, D, seed=3).to(dtype).requires_grad_(head_trains)
        bias_V = drawn(V, seed=4).to(dtype).requires_grad_(head_trains) if has_bias else None
        return Head(weight_V_D, bias_V, cap, 0.7), drawn(N, D, seed=5).to(dtype).requires_grad_(True)

    exact, exact_hidden = head_and_hidden(torch.float64)
    logprobs_N_V = plain_logprobs(exact, exact_hidden)
    entropies_N = -(logprobs_N_V.exp() * logprobs_N_V).sum(-1)
    of_entropies_N = OF_ENTROPIES_N * differentiates_entropies
    ((logprobs_N_V.gather(-1, IDS_N_K) * FROM_ABOVE_N_K).sum() + (entropies_N * of_entropies_N).sum()).backward()
    ours, hidden = head_and_hidden(torch.float32)
    stats = head_stats(ours, hidden, IDS_N_K)
    total = (stats.logprobs_N_K * FROM_ABOVE_N_K.float()).sum()
    (total + (stats.entropies_N * of_entropies_N.float()).sum() if differentiates_entropies else total).backward()

    close = {"atol": 2e-5, "rtol": 2e-5, "check_dtype": False}
    torch.testing.assert_close(stats.logprobs_N_K, logprobs_N_V.gather(-1, IDS_N_K), **close)
    torch.testing.assert_close(stats.entropies_N, entropies_N, **close)
    torch.testing.assert_close(hidden.grad, exact_hidden.grad, **close)
    for one, two in ((ours.weight_V_D, exact.weight_V_D), (ours.bias_V, exact.bias_V)):
        if two is not None:
            torch.testing.assert_close(one.grad, two.grad, **close)


@pytest.mark.parametrize("head_trains", [False, True])
def test_the_entropy_alone_has_the_gradient_of_the_plain_entropy(head_trains: bool) -> None:
    def gradient(of: Callable[[Head, Tensor], Tensor]) -> Tensor:
        hidden_N_D = drawn(N, D, seed=5).float().requires_grad_(True)
        of(Head(drawn(V, D, seed=3).float().requires_grad_(head_trains), temperature=0.7), hidden_N_D).sum().backward()
        assert hidden_N_D.grad is not None
        return hidden_N_D.grad

    ours = gradient(lambda head, hidden_N_D: head_stats(head, hidden_N_D, IDS_N_K).entropies_N)
    plain = gradient(
        lambda head, hidden_N_D: -(plain_logprobs(head, hidden_N_D).exp() * plain_logprobs(head, hidden_N_D))
    )
    torch.testing.assert_close(ours, plain, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("weight_trains", [False, True])
def test_a_bias_trains_also_where_the_weight_is_frozen(weight_trains: bool) -> None:
    bias_V = drawn(V, seed=4).float().requires_grad_(True)
    weight_V_D, hidden_N_D = drawn(V, D, seed=3).float(), drawn(N, D, seed=5).float().requires_grad_(True)
    head = Head(weight_V_D.requires_grad_(weight_trains), bias_V)
    head_stats(head, hidden_N_D, IDS_N_K).logprobs_N_K.sum().backward()
    ours, bias_V.grad = bias_V.grad, None
    plain_logprobs(head, hidden_N_D).gather(-1, IDS_N_K).sum().backward()
    torch.testing.assert_close(ours, bias_V.grad, atol=1e-3, rtol=1e-4)


def test_the_kl_to_a_teachers_best_tokens_comes_from_the_same_pass() -> None:
    student, teacher = Head(drawn(V, D, seed=6).float()), Head(drawn(V, D, seed=7).float())
    hidden_N_D = drawn(N, D, seed=8).float().requires_grad_(True)
    best = top_tokens(teacher, hidden_N_D, 3)

    def kl(logprobs_N_K: Tensor) -> Tensor:
        return (best.logprobs_N_K.exp() * (best.logprobs_N_K - logprobs_N_K)).sum()

    kl(head_stats(student, hidden_N_D, best.ids_N_K).logprobs_N_K).backward()
    again_N_D = hidden_N_D.detach().requires_grad_(True)
    kl(plain_logprobs(student, again_N_D).gather(-1, best.ids_N_K)).backward()
    torch.testing.assert_close(hidden_N_D.grad, again_N_D.grad, atol=1e-5, rtol=1e-4)
    expected = plain_logprobs(teacher, again_N_D).topk(3)
    assert torch.equal(best.ids_N_K, expected.indices)
    torch.testing.assert_close(best.logprobs_N_K, expected.values)


@pytest.mark.parametrize(("head_trains", "forward", "backward"), [(False, 2, {0}), (True, 1, {2, 3})])
def test_a_frozen_head_makes_no_product_with_the_vocabulary_in_the_backward_pass(
    head_trains: bool, forward: int, backward: set[int]
) -> None:
    """A head that trains makes three; the counter does not see those that are added in place."""
    head = Head(drawn(V, D, seed=3).float().requires_grad_(head_trains))
    hidden_N_D = drawn(N, D, seed=5).float().requires_grad_(True)
    one_product = 2 * N * D * V
    with FlopCounterMode(display=False) as counter:
        logprobs_N_K = head_stats(head, hidden_N_D, IDS_N_K[:, :1]).logprobs_N_K
    assert round(counter.get_total_flops() / one_product) == forward
    with FlopCounterMode(display=False) as counter:
        logprobs_N_K.sum().backward()
    assert round(counter.get_total_flops() / one_product) in backward


@pytest.mark.parametrize("head_trains", [False, True])
def test_no_tensor_of_all_tokens_times_the_vocabulary_is_ever_made(head_trains: bool) -> None:
    head = Head(torch.ones(500, D, requires_grad=head_trains))
    largest = []
    for num in (1000, 4000):
        hidden_N_D = torch.ones(num, D, requires_grad=True)
        with Largest() as seen:
            head_stats(head, hidden_N_D, torch.zeros(num, 1, dtype=torch.long)).logprobs_N_K.sum().backward()
        largest.append(seen.numel)
    assert largest[0] == largest[1] < 1000 * 500


MEMORY = """
import json, resource, sys, torch
from burnish.models.fused_head import Head, head_stats
torch.set_num_threads(1)
head = Head(torch.ones(30_000, 16, requires_grad=sys.argv[1] == "True"))
peaks = []
for num in (1024, 4096):
    hidden = torch.ones(num, 16, requires_grad=True)
    head_stats(head, hidden, torch.zeros(num, 1, dtype=torch.long)).logprobs_N_K.sum().backward()
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(json.dumps(peaks))
"""


@pytest.mark.slow
@pytest.mark.parametrize("head_trains", [False, True])
def test_four_times_the_tokens_add_hidden_states_to_the_peak_and_no_logits(head_trains: bool) -> None:
    command = [sys.executable, "-c", MEMORY, str(head_trains)]
    one, two = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    logits_mb = 3072 * 30_000 * 4 / 2**20
    assert two - one < 0.15 * logits_mb
