"""What is compiled for rows computes what torch computes, whatever the number of threads, or torch does it."""

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnish.core.compiling import Unavailable
from burnish.models.kernels import layers, rows
from burnish.models.kernels.layers import GatedLayer, RowNorm, use_kernels
from burnish.models.kernels.rows import Rows, check, rows_for
from tests.fakes import random_model

CLOSE = {torch.float32: {"atol": 2e-6, "rtol": 2e-5}, torch.bfloat16: {"atol": 2e-2, "rtol": 1e-2}}


@pytest.fixture
def compiled() -> Rows:
    found = rows_for(torch.zeros(1))
    if found is None:
        pytest.skip("nothing compiles here")
    return found


@pytest.fixture(params=[torch.float32, torch.bfloat16])
def dtype(request, compiled) -> torch.dtype:
    return request.param


def drawn(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def gradients(outputs: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    above = drawn(*outputs.shape, seed=99, dtype=torch.bfloat16).to(outputs.dtype)
    return list(torch.autograd.grad(outputs, inputs, above))


def exactly(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().double().requires_grad_(True) for tensor in tensors]


def assert_near(ours: list[Tensor], exact: list[Tensor], dtype: torch.dtype) -> None:
    for one, two in zip(ours, exact, strict=True):
        torch.testing.assert_close(one.double(), two, **CLOSE[dtype])


@pytest.mark.parametrize("shape", [(1, 1, 5), (2, 3, 16), (1, 130, 33)])
def test_a_norm_has_the_values_and_gradients_of_its_formula(dtype, shape):
    norm = RowNorm(nn.Parameter(drawn(shape[-1], seed=1, dtype=dtype)), 1e-5)
    x = drawn(*shape, seed=2, dtype=dtype).requires_grad_(True)
    exact_x, weight = exactly(x, norm.weight)
    y = norm(x)
    exact_y = exact_x * (exact_x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight
    assert_near([y, *gradients(y, [x, norm.weight])], [exact_y, *gradients(exact_y, [exact_x, weight])], dtype)


def test_a_frozen_norm_has_no_gradient_of_its_weight(compiled):
    norm = RowNorm(nn.Parameter(torch.ones(4), requires_grad=False), 1e-5)
    x = drawn(3, 4, seed=2).requires_grad_(True)
    norm(x).sum().backward()
    assert norm.weight.grad is None and x.grad is not None


@pytest.mark.parametrize("shape", [(1, 1), (3, 1000), (40, 1001)])
def test_a_gate_has_the_values_and_gradients_of_its_formula(dtype, shape):
    gate, up = (drawn(*shape, seed=seed, dtype=dtype).mul_(3).requires_grad_(True) for seed in (3, 4))
    exact_gate, exact_up = exactly(gate, up)
    y, exact_y = layers._Gated.apply(gate, up), functional.silu(exact_gate) * exact_up
    ours = [y, *gradients(y, [gate, up])]
    assert_near(ours, [exact_y, *gradients(exact_y, [exact_gate, exact_up])], dtype)


def test_the_softmax_of_a_row_that_is_far_from_zero_is_exact(compiled):
    """One huge logit, equal logits, and logits whose exponentials are no numbers by themselves."""
    z_N_V = torch.tensor([[0.0, 1e4, 5.0], [7.0, 7.0, 7.0], [-1e4, -1e4 - 1, -1e4 - 300], [1e-3, 0.0, -1e-3]])
    ids_N_K = torch.tensor([[0, 1], [2, 2], [0, 2], [1, 2]])
    found = compiled.softmax(z_N_V.clone(), ids_N_K, 0.5, keeps=False)
    exact_N_V = torch.log_softmax(z_N_V.double() / 2, -1)
    torch.testing.assert_close(found.logprobs_N_K.double(), exact_N_V.gather(-1, ids_N_K), atol=1e-3, rtol=1e-6)
    torch.testing.assert_close(found.entropies_N.double(), -(exact_N_V.exp() * exact_N_V).sum(-1), atol=1e-6, rtol=1e-5)
    assert found.entropies_N[1] == pytest.approx(math.log(3))


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_no_number_stays_seen(compiled, odd):
    z_N_V = torch.zeros(2, 40)
    z_N_V[0, 17] = odd
    found = compiled.softmax(z_N_V.clone(), torch.zeros(2, 1, dtype=torch.long), 1.0, keeps=False)
    assert not torch.isfinite(found.entropies_N[0]) and torch.isfinite(found.entropies_N[1])
    for precision in (torch.float32, torch.bfloat16):
        x_N_V = z_N_V.to(precision)
        weight_V = torch.ones(40, dtype=precision)
        assert not compiled.norm(x_N_V, weight_V, 1e-5)[0][0].isfinite().all()
        assert not compiled.gated(x_N_V, x_N_V)[0].isfinite().all()


def test_an_id_that_is_asked_for_twice_gets_both_gradients(compiled):
    z_N_V, ids_N_K = drawn(2, 9, seed=5), torch.tensor([[3, 3, 1], [0, 8, 0]])
    of_logprobs_N_K = drawn(2, 3, seed=6)
    found = compiled.softmax(z_N_V.clone(), ids_N_K, 1.0, keeps=False)
    ours_N_V = z_N_V.clone()
    compiled.softmax_back(ours_N_V, ids_N_K, of_logprobs_N_K, None, found.log_sums_N, found.entropies_N, 1.0)
    (exact_N_V,) = exactly(z_N_V)
    chosen_N_K = torch.log_softmax(exact_N_V, -1).gather(-1, ids_N_K)
    (expected_N_V,) = torch.autograd.grad(chosen_N_K, exact_N_V, of_logprobs_N_K.double())
    torch.testing.assert_close(ours_N_V.double(), expected_N_V, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("token_id", [-100, 9])
def test_an_id_that_is_no_token_is_refused_and_nothing_is_touched(compiled, token_id):
    z_N_V, ids_N_K = drawn(2, 9, seed=5), torch.tensor([[1], [token_id]])
    before, zeros_N = z_N_V.clone(), torch.zeros(2)
    with pytest.raises(IndexError, match="where there are 9 tokens"):
        compiled.softmax(z_N_V, ids_N_K, 1.0, keeps=True)
    with pytest.raises(IndexError, match="where there are 9 tokens"):
        compiled.softmax_back(z_N_V, ids_N_K, torch.ones(2, 1), None, zeros_N, zeros_N, 1.0)
    assert torch.equal(z_N_V, before)


def test_adding_into_float32_rounds_nothing_away(dtype, compiled):
    total, x = torch.full((3, 20_001), 1000.0), drawn(3, 20_001, seed=7, dtype=dtype)
    expected = total + x.float()
    compiled.add(total, x)
    assert torch.equal(total, expected)


def test_the_number_of_threads_changes_no_bit(dtype, compiled):
    def everything() -> list[Tensor]:
        x, weight = drawn(300, 40, seed=8, dtype=dtype), drawn(40, seed=9, dtype=dtype)
        y, inverse = compiled.norm(x, weight, 1e-5)
        dx, dweight = compiled.norm_back(x, y, weight, inverse, weight_trains=True)
        stats = compiled.softmax(x.clone(), torch.zeros(300, 1, dtype=torch.long), 1.0, keeps=False)
        return [y, dx, dweight, *stats]

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = everything()
        torch.set_num_threads(3)
        three = everything()
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_model_with_our_layers_has_the_same_numbers_gradients_and_names(compiled, kind):
    plain = random_model(kind)
    plain.set_attn_implementation("eager")
    ours = copy.deepcopy(plain)
    use_kernels(ours)
    assert any(isinstance(m, RowNorm) for m in ours.modules()) and any(
        isinstance(m, GatedLayer) for m in ours.modules()
    )
    assert list(dict(ours.named_parameters())) == list(dict(plain.named_parameters()))
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    for model in (plain, ours):
        model.requires_grad_(True)
        model(ids).logits.square().sum().backward()
    torch.testing.assert_close(ours(ids).logits, plain(ids).logits, atol=1e-5, rtol=1e-5)
    for (name, one), (_, two) in zip(ours.named_parameters(), plain.named_parameters(), strict=True):
        assert (one.grad - two.grad).abs().max() <= 1e-5 * two.grad.abs().max(), name
    again = pickle.loads(pickle.dumps(ours))
    assert torch.equal(again(ids).logits, ours(ids).logits)


class OnePlus(RowNorm):
    """A norm as Gemma has it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + super().forward(x) / self.weight


class Centred(RowNorm):
    """A norm as Cohere has it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(-1, keepdim=True))


class Gated(GatedLayer):
    """A gated layer of another kind."""

    def __init__(self, act_fn=None, most: float = math.inf) -> None:
        super().__init__(*(nn.Linear(64, 64) for _ in range(3)))
        self.act_fn = act_fn or nn.SiLU()
        self.most = most

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x).clamp(max=self.most)) * self.up_proj(x))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_layers_that_compute_something_else_are_left_alone(compiled, precision):
    ones = [nn.Parameter(torch.ones(4096)) for _ in range(2)]
    norms = [OnePlus(ones[0], 1e-5), Centred(ones[1], 1e-5), nn.LayerNorm(4096), nn.LayerNorm(4096, bias=False)]
    gates = [Gated(nn.ReLU()), Gated(nn.GELU()), Gated(lambda x: x * torch.sigmoid(1.1 * x)), Gated(most=7.0)]
    model = nn.Sequential(*norms, *gates, nn.Linear(4, 4)).to(precision)
    before = list(model)
    use_kernels(model)
    assert all(one is two for one, two in zip(model, before, strict=True))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_layers_that_compute_the_same_are_replaced_with_their_own_weights(compiled, precision):
    model = nn.Sequential(Gated(), nn.RMSNorm(64, eps=1e-6)).to(precision)
    gate, norm = model
    use_kernels(model)
    assert type(model[0]) is GatedLayer and model[0].gate_proj is gate.gate_proj
    assert type(model[1]) is RowNorm and model[1].weight is norm.weight


def test_without_a_compiler_torch_computes_the_same_and_a_line_says_so(monkeypatch, capsys):
    def missing() -> None:
        raise Unavailable("there is no C++ compiler 'g++'; install g++, or name one in CXX")

    norm, x = RowNorm(nn.Parameter(drawn(8, seed=1)), 1e-5), drawn(3, 8, seed=2)
    expected = norm(x)
    monkeypatch.setattr(rows, "_library", missing)
    rows._trusted.cache_clear()
    try:
        torch.testing.assert_close(norm(x), expected)
        norm(x)
        assert capsys.readouterr().err.count("go through torch, which is slower: there is no C++ compiler") == 1
    finally:
        rows._trusted.cache_clear()


@pytest.mark.parametrize("name", ["norm", "gated", "softmax"])
def test_wrong_results_are_not_trusted(compiled, monkeypatch, name):
    right = getattr(Rows, name)

    def wrong(self, x, *given, **named):
        return right(self, x.flip(-1), *given, **named)

    monkeypatch.setattr(Rows, name, wrong)
    with pytest.raises(Unavailable, match=f"{name} in torch.float32 differs"):
        check(compiled)
