"""Adapters start as nothing, train alone, switch off, and merge exactly."""

import pytest
import torch

from burnish.core.errors import ConfigError
from burnish.models.lora import LoraLinear, add_lora, merged, merged_state_dict, trainable
from tests.fakes import random_model

IDS = torch.tensor([[1, 2, 3, 4, 5]])


def _adapted(seed: int = 0):
    model = random_model("qwen3")
    model.set_attn_implementation("eager")
    add_lora(model, rank=4, alpha=8, targets="all-linear", seed=seed)
    return model


def _stir(model) -> None:
    with torch.no_grad():
        for index, parameter in enumerate(trainable(model).values()):
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index))


def test_the_layer_adds_alpha_over_rank_times_b_a_x():
    layer = LoraLinear(torch.nn.Linear(2, 2, bias=False), rank=1, scale=3.0, seed=0)
    with torch.no_grad():
        layer.base.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        layer.down.copy_(torch.tensor([[1.0, -2.0]]))
        layer.up.copy_(torch.tensor([[0.5], [1.0]]))
    assert layer(torch.tensor([5.0, 1.0])).tolist() == [7 + 3 * 0.5 * 3, 19 + 3 * 1.0 * 3]


def test_an_adapted_model_starts_as_its_base():
    model = random_model("qwen3")
    model.set_attn_implementation("eager")
    assert torch.equal(_adapted()(IDS).logits, model(IDS).logits)


def test_only_adapters_train_and_the_head_has_none():
    names = list(trainable(_adapted()))
    assert names == sorted(names)
    assert len(names) == 3 * 7 * 2
    assert all(name.endswith((".down", ".up")) and "lm_head" not in name for name in names)


def test_merged_weights_compute_what_the_adapted_model_computes():
    model, plain = _adapted(), random_model("qwen3")
    plain.set_attn_implementation("eager")
    _stir(model)
    merged = merged_state_dict(model)
    assert merged.keys() == dict(plain.named_parameters()).keys()
    plain.load_state_dict(merged, strict=False)
    torch.testing.assert_close(plain(IDS).logits, model(IDS).logits, atol=1e-5, rtol=1e-5)


def test_masters_replace_the_base_weights_that_adapters_are_merged_into():
    model = _adapted().to(torch.bfloat16)
    _stir(model)
    name = "model.layers.1.mlp.up_proj.weight"
    master = random_model("qwen3").get_parameter(name)
    adapter = model.model.layers[1].mlp.up_proj
    merged = merged_state_dict(model, {name: master})[name]
    torch.testing.assert_close(merged, master + 2 * adapter.up.float() @ adapter.down.float())
    assert merged.dtype == torch.float32


def test_masters_replace_the_adapters_that_are_merged():
    model, exact = _adapted().to(torch.bfloat16), _adapted()
    _stir(exact)
    masters = {**dict(random_model("qwen3").named_parameters()), **trainable(exact)}
    expected = merged_state_dict(exact)
    for name, value in merged_state_dict(model, masters).items():
        torch.testing.assert_close(value, expected[name], atol=0, rtol=0)


def test_equal_seeds_draw_equal_adapters():
    first, again, other = (trainable(_adapted(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_targets_may_be_a_regular_expression():
    model = random_model("llama")
    add_lora(model, rank=2, alpha=4, targets=r"layers\.0\..*\.(q|v)_proj$", seed=0)
    assert {name.rsplit(".", 2)[1] for name in trainable(model)} == {"q_proj", "v_proj"}
    assert len(trainable(model)) == 4


@pytest.mark.parametrize(("targets", "message"), [("attention", "model.layers.N.mlp.up_proj"), ("(", "no regular")])
def test_targets_that_match_nothing_are_refused_with_the_names_there_are(targets: str, message: str):
    with pytest.raises(ConfigError, match=message):
        add_lora(random_model("llama"), rank=2, alpha=4, targets=targets, seed=0)


def test_a_stabilised_adapter_is_scaled_by_the_square_root_of_its_rank():
    model = random_model("llama")
    add_lora(model, rank=16, alpha=8, targets=r"layers\.0\.mlp\.up_proj$", seed=0, stabilised=True)
    assert model.model.layers[0].mlp.up_proj.scale == 8 / 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_within_merged_the_model_computes_the_same_and_behind_it_each_weight_has_its_bits_again(dtype: torch.dtype):
    model = _adapted().to(dtype)
    _stir(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    apart = model(IDS).logits
    with merged(model):
        together = model(IDS).logits
        changed = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert len(changed) == 3 * 7
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert torch.equal(model(IDS).logits, apart)
    tolerance = 1e-5 if dtype == torch.float32 else 0.2
    torch.testing.assert_close(together, apart, atol=tolerance, rtol=tolerance)


def test_merging_ends_also_where_the_block_fails():
    model = _adapted()
    _stir(model)
    before = model(IDS).logits
    with pytest.raises(ZeroDivisionError), merged(model):
        raise ZeroDivisionError
    assert torch.equal(model(IDS).logits, before)
