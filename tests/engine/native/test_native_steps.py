"""The native step computes what transformers computes, whatever is beside a row."""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.engine.adapters import Adapter
from burnish.engine.native.steps import NativeSteps, reason_why_not
from burnish.engine.params import SamplingParams
from burnish.engine.sampler import draw
from burnish.engine.steps import Work
from burnish.models.lora import add_lora, trainable
from tests.engine.native.models import FAMILIES, adapter_of, decode, make, prompt
from tests.fakes import plain_copy

pytestmark = pytest.mark.skipif(
    (reason := reason_why_not(make("llama"))) is not None, reason=f"the native step cannot be had here: {reason}"
)


def _steps(model: PreTrainedModel, **options) -> NativeSteps:
    return NativeSteps(model, memory_mb=32, **options)


def _logprobs(model: PreTrainedModel, token_ids: list[int]) -> Tensor:
    return plain_copy(model)(torch.tensor([token_ids])).logits[0].float().log_softmax(-1)


def _fed(steps: NativeSteps, token_ids: list[int]) -> Tensor:
    return steps.feed([Work(steps.open(), token_ids)], every_token=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_are_those_of_transformers(family):
    model, token_ids = make(family), prompt(301)
    steps = _steps(model)
    got_T_V = steps.logits(_fed(steps, token_ids)).log_softmax(-1)
    torch.testing.assert_close(got_T_V, _logprobs(model, token_ids), atol=1e-4, rtol=0)


def test_long_sums_are_no_further_from_exact_arithmetic_than_those_of_transformers():
    """Root of the mean square of log-probabilities' errors; one chain over each depth is at 1.6 times theirs."""
    wide = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
    model, token_ids = make("llama", head_dim=64, initializer_range=0.1, **wide), prompt(100)
    ours_T_V = _steps(model).logits(_fed(_steps(model), token_ids)).log_softmax(-1)
    exact_T_V = plain_copy(model).double()(torch.tensor([token_ids])).logits[0].log_softmax(-1)
    ours, theirs = ((x - exact_T_V).square().mean().sqrt() for x in (ours_T_V, _logprobs(model, token_ids)))
    assert ours < 1.2 * theirs


def test_a_gate_far_below_zero_is_closed():
    """e^-gate is beyond float32 there."""
    model, token_ids = make("llama"), prompt(20)
    for layer in model.model.layers:
        layer.mlp.gate_proj.weight.mul_(40)
    got_T_V = _steps(model).logits(_fed(_steps(model), token_ids)).log_softmax(-1)
    torch.testing.assert_close(got_T_V, _logprobs(model, token_ids), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lm_head", {}),
        ("model.layers.0.self_attn.q_proj", {}),
        ("model.layers.0.mlp.gate_proj", {}),
        ("model.layers.0.mlp.up_proj", {"weights": "int8"}),
        ("model.layers.1.self_attn.v_proj", {"cache": "int8"}),
    ],
)
def test_a_weight_that_is_no_number_makes_each_log_probability_none(name, options):
    model = make("llama")
    model.get_submodule(name).weight[5, 3] = torch.nan
    steps = _steps(model, **options)
    drawn = steps.draw(_fed(steps, prompt(2)), torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5]))
    assert drawn.logprobs_B.isnan().all()


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_is_what_transformers_generates(family):
    model, token_ids = make(family), prompt(20)
    steps = _steps(model)
    branch = steps.open()
    got = decode(steps, [branch], steps.feed([Work(branch, token_ids)]), 25)
    ids_1_T = torch.tensor([token_ids])
    expected_1_T = plain_copy(model).generate(
        ids_1_T, attention_mask=torch.ones_like(ids_1_T), max_new_tokens=25, do_sample=False
    )
    assert got[0] == expected_1_T[0, 20:].tolist()


@pytest.mark.parametrize("options", [{}, {"weights": "int8", "cache": "int8"}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_alone_in_a_batch_and_in_pieces(dtype, options):
    """Among others of all lengths; its prompt at once, token by token, and in two parts; shared or not."""
    steps = _steps(make("llama").to(dtype), **options)
    token_ids = prompt(290)
    alone_T_D = _fed(steps, token_ids)
    others = [Work(steps.open(), prompt(length, seed=length)) for length in (1, 7, 33, 95, 130)]
    mine = steps.open()
    among_T_D = steps.feed([*others, Work(mine, token_ids)], every_token=True)[-290:]
    assert torch.equal(among_T_D, alone_T_D)
    forks = [steps.open(mine, length) for length in (280, 280, 283, 64)]
    for length in range(280, 290):
        work = [Work(fork, [token_ids[length]]) for fork in forks[:2]]
        assert torch.equal(steps.feed(work)[0], alone_T_D[length])
    rest = [Work(forks[2], token_ids[283:]), Work(forks[3], token_ids[64:])]
    rest_T_D = steps.feed(rest, every_token=True)
    assert torch.equal(rest_T_D, torch.cat([alone_T_D[283:], alone_T_D[64:]]))


def test_the_number_of_threads_changes_no_bit():
    steps = _steps(make("qwen3"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    one_T_D = _fed(steps, prompt(200))
    torch.set_num_threads(3)
    assert torch.equal(_fed(steps, prompt(200)), one_T_D)
    torch.set_num_threads(before)


def test_a_fork_and_its_parent_do_not_write_into_each_other():
    """Both grow into the block that they share, by other tokens."""
    model, token_ids = make("llama"), prompt(40)
    steps = _steps(model)
    parent = steps.open()
    steps.feed([Work(parent, token_ids)])
    child = steps.open(parent, 37)
    hidden_2_D = steps.feed([Work(parent, [1]), Work(child, [2])])
    hidden_2_D = steps.feed([Work(parent, [3]), Work(child, [4])])
    got_2_V = steps.logits(hidden_2_D).log_softmax(-1)
    expected = [_logprobs(model, [*token_ids, 1, 3])[-1], _logprobs(model, [*token_ids[:37], 2, 4])[-1]]
    torch.testing.assert_close(got_2_V, torch.stack(expected), atol=1e-4, rtol=0)


def test_forks_share_what_is_whole_and_dropping_gives_room_back():
    steps = NativeSteps(make("llama"), memory_mb=1)
    parent = steps.open()
    steps.feed([Work(parent, prompt(64))])
    free = steps.capacity - 64
    forks = [steps.open(parent) for _ in range(5)]
    assert steps.fits([Work(forks[0], [0] * free)])
    assert not steps.fits([Work(forks[0], [0] * (free + 1))])
    steps.feed([Work(fork, [0]) for fork in forks])
    assert not steps.fits([Work(parent, [0] * (free - 5 * 32 + 1))])
    for fork in forks:
        steps.drop(fork)
    steps.drop(parent)
    assert steps.fits([Work(steps.open(), [0] * steps.capacity)])


def test_feeding_more_than_fits_is_refused_and_changes_nothing():
    steps = NativeSteps(make("llama"), memory_mb=1)
    branch = steps.open()
    steps.feed([Work(branch, [5])])
    with pytest.raises(RuntimeError, match="there is no room"):
        steps.feed([Work(branch, [0] * steps.capacity)])
    expected_1_D = _fed(_steps(make("llama")), [5, 6])[1:]
    assert torch.equal(steps.feed([Work(branch, [6])]), expected_1_D)


@pytest.mark.parametrize("wrong", [-1, 259])
def test_a_token_outside_the_vocabulary_is_refused(wrong):
    steps = _steps(make("llama"))
    with pytest.raises(RuntimeError, match="outside the vocabulary of 259"):
        _fed(steps, [wrong])


def test_a_dropped_branch_is_refused():
    steps = _steps(make("llama"))
    branch = steps.open()
    steps.drop(branch)
    for use in (lambda: steps.drop(branch), lambda: steps.open(branch), lambda: steps.feed([Work(branch, [1])])):
        with pytest.raises(RuntimeError, match="is not open"):
            use()


def _merged(family: str, adapter: Adapter) -> PreTrainedModel:
    model = make(family)
    for name, low in adapter.items():
        model.get_submodule(name).weight += low.scale * low.up_O_R @ low.down_R_I
    return model


@pytest.mark.parametrize("family", ["llama-biased", "qwen3"])
def test_rows_of_several_adapters_go_together_and_each_is_as_with_merged_weights(family):
    """Of unlike ranks; one adapts some layers only, and is put in the place of one that adapts all."""
    model, token_ids = make(family), prompt(70)
    steps = _steps(model)
    adapters = {"a": adapter_of(model, 4, seed=1), "b": adapter_of(model, 40, seed=2, but="k_proj")}
    steps.put_adapter("b", adapter_of(model, 8, seed=3))
    for name, adapter in adapters.items():
        steps.put_adapter(name, adapter)
    branches = [steps.open(adapter=name) for name in ("a", None, "b", "a")]
    hidden_T_D = steps.feed([Work(branch, token_ids) for branch in branches], every_token=True)
    truths = [_merged(family, adapters["a"]), model, _merged(family, adapters["b"]), _merged(family, adapters["a"])]
    for got_T_D, truth in zip(hidden_T_D.split(70), truths, strict=True):
        got_T_V = steps.logits(got_T_D).log_softmax(-1)
        torch.testing.assert_close(got_T_V, _logprobs(truth, token_ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_of_an_adapter_has_the_same_bits_alone_and_among_others(dtype):
    model, token_ids = make("llama").to(dtype), prompt(90)
    steps = _steps(model)
    for seed, name in enumerate("ab"):
        steps.put_adapter(name, adapter_of(model, 4, seed))
    mine = steps.open(adapter="a")
    alone_T_D = steps.feed([Work(mine, token_ids)], every_token=True)
    others = [Work(steps.open(adapter=name), prompt(n, seed=n)) for name, n in (("b", 5), ("a", 20), (None, 3))]
    among_T_D = steps.feed([*others, Work(steps.open(adapter="a"), token_ids)], every_token=True)[-90:]
    assert torch.equal(among_T_D, alone_T_D)
    fork = steps.open(mine, 89, adapter="a")
    assert torch.equal(steps.feed([Work(fork, token_ids[89:])])[0], alone_T_D[89])


def test_refresh_takes_over_changed_weights_and_adapters():
    model, token_ids = make("qwen2"), prompt(30)
    steps = _steps(model)
    before_T_D = _fed(steps, token_ids)
    add_lora(model, rank=4, alpha=8, targets="all-linear", seed=0)
    for name, parameter in trainable(model).items():
        if name.endswith("up"):
            parameter.data.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    model.get_parameter("model.norm.weight").data.mul_(1.5)
    steps.refresh()
    got_T_V = steps.logits(_fed(steps, token_ids)).log_softmax(-1)
    torch.testing.assert_close(got_T_V, _logprobs(model, token_ids), atol=1e-4, rtol=0)
    assert not torch.allclose(_fed(steps, token_ids), before_T_D)


def test_tokens_are_drawn_as_the_sampler_draws_them():
    """The same numbers give the same tokens, but where a number falls within rounding of a boundary."""
    steps = _steps(make("llama"))
    hidden_N_D = _fed(steps, prompt(400)) * 0.3
    uniforms_N = torch.rand(400, generator=torch.Generator().manual_seed(3))
    for temperature in (1.0, 0.7):
        drawn = steps.draw(hidden_N_D, torch.full((400,), temperature), uniforms_N)
        expected = draw(steps.logits(hidden_N_D), SamplingParams(temperature=temperature), uniforms_N)
        is_same_N = drawn.token_ids_B == expected.token_ids_B
        assert is_same_N.float().mean() > 0.995
        torch.testing.assert_close(drawn.logprobs_B[is_same_N], expected.logprobs_B[is_same_N], atol=1e-5, rtol=0)


def test_tokens_are_drawn_as_often_as_their_distribution_says():
    """Pearson's chi-square over 258 degrees of freedom; its 99.9 % quantile is 334."""
    steps = _steps(make("llama"))
    hidden_1_D = _fed(steps, [1]) * 0.3
    num_draws = 100_000
    uniforms_N = torch.rand(num_draws, generator=torch.Generator().manual_seed(0))
    expected_V = steps.logits(hidden_1_D)[0].double().softmax(-1) * num_draws
    drawn = steps.draw(hidden_1_D.expand(num_draws, -1), torch.ones(num_draws), uniforms_N)
    counts_V = torch.bincount(drawn.token_ids_B, minlength=259)
    assert expected_V.min() > 5
    assert ((counts_V - expected_V) ** 2 / expected_V).sum() < 334


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-24])
def test_the_ends_of_the_unit_interval_draw_tokens_of_some_probability(uniform):
    steps = _steps(make("llama"))
    hidden_N_D = _fed(steps, prompt(300)) * 20
    drawn = steps.draw(hidden_N_D, torch.ones(300), torch.full((300,), uniform))
    assert drawn.logprobs_B.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scoring_gives_the_bits_that_drawing_gave(dtype):
    steps = _steps(make("qwen3").to(dtype))
    branch, token_ids, drawn_T = steps.open(), prompt(20), []
    temperatures_1 = torch.tensor([0.8])
    hidden_1_D = steps.feed([Work(branch, token_ids)])
    for uniform in torch.rand(30, generator=torch.Generator().manual_seed(5)):
        drawn = steps.draw(hidden_1_D, temperatures_1, uniform[None])
        drawn_T.append(drawn)
        hidden_1_D = steps.feed([Work(branch, drawn.token_ids_B.tolist())])
    sampled_T = torch.cat([drawn.token_ids_B for drawn in drawn_T])
    hidden_T_D = _fed(steps, [*token_ids, *sampled_T.tolist()])[19:-1]
    scored_T = steps.score(hidden_T_D, torch.full((30,), 0.8), sampled_T)
    assert torch.equal(scored_T, torch.cat([drawn.logprobs_B for drawn in drawn_T]))


@pytest.mark.parametrize(
    ("dtype", "options", "bound"),
    [
        (torch.bfloat16, {}, 0.05),
        (torch.float32, {"cache": "int8"}, 0.03),
        (torch.float32, {"weights": "int8"}, 0.1),
        (torch.bfloat16, {"weights": "int8", "cache": "int8"}, 0.12),
    ],
)
def test_smaller_numbers_cost_little(dtype, options, bound):
    """Mean distance of log-probabilities from the float32 model's, over tokens as probable as the model says."""
    model, token_ids = make("llama", initializer_range=0.1), prompt(200)
    expected_T_V = _logprobs(model, token_ids)
    steps = _steps(model.to(dtype), **options)
    got_T_V = steps.logits(_fed(steps, token_ids)).log_softmax(-1)
    assert (expected_T_V.exp() * (got_T_V - expected_T_V).abs()).sum(-1).mean() < bound


def test_int8_weights_take_a_quarter_but_for_the_head():
    model = make("llama")
    head = 272 * 64 * 4  # the vocabulary in whole panels, the width in whole tiles
    whole, small = (_steps(model, weights=weights).packed_bytes - head for weights in ("auto", "int8"))
    assert 0.25 * whole < small < 0.3 * whole


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("llama", {"hidden_act": "gelu"}, "activation is 'gelu'"),
        ("llama", {"head_dim": 24}, "heads are 24 wide"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            "rope scaling 'dynamic'",
        ),
    ],
)
def test_a_model_that_is_not_covered_is_refused_with_the_reason(family, changes, reason):
    model = make(family, **changes)
    assert reason in (reason_why_not(model) or "")
    with pytest.raises(ConfigError, match="cannot run this model"):
        _steps(model)


def test_a_layer_that_is_not_plain_is_refused():
    model = make("llama")
    model.model.layers[1].mlp.up_proj = torch.nn.Sequential(model.model.layers[1].mlp.up_proj)
    assert "layer of type 'Sequential'" in (reason_why_not(model) or "")


def test_a_head_of_another_vocabulary_than_the_embeddings_is_refused():
    model = make("llama")
    model.lm_head = torch.nn.Linear(48, 300, bias=False)
    assert "embeds 259 tokens, and its head knows 300" in (reason_why_not(model) or "")


def test_too_little_memory_for_one_block_is_refused():
    with pytest.raises(ConfigError, match="raise it"):
        NativeSteps(make("llama", num_hidden_layers=1), memory_mb=0)
