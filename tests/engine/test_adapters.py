"""LoRA adapters by name: each sample is computed with its own, whatever is beside it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.engine.adapters import Adapter, LowRank, read_adapter
from burnish.engine.local import LocalEngine, open_engine
from burnish.engine.native.steps import reason_why_not
from burnish.engine.types import Finished, Request, Sampled, SamplingParams
from burnish.models.lora import LoraLinear, add_lora
from burnish.models.peft import save_adapter
from tests.fakes import plain_copy, random_model, tiny_chat

PARAMS = SamplingParams(temperature=0, max_new_tokens=10)
PROMPT = tuple(range(40))


def _adapter(model: PreTrainedModel, seed: int) -> Adapter:
    """Random, on each linear layer of the body."""
    generator = torch.Generator().manual_seed(seed)
    linears = {n: m for n, m in model.base_model.named_modules(prefix="model") if isinstance(m, nn.Linear)}
    return {
        name: LowRank(
            torch.randn(4, linear.in_features, generator=generator) / 8,
            torch.randn(linear.out_features, 4, generator=generator) / 8,
            2.0,
        )
        for name, linear in linears.items()
    }


def _engine(model: PreTrainedModel, **options) -> LocalEngine:
    return open_engine(model, tiny_chat(), max_rows=8, version=lambda: 0, options={"path": "torch", **options})


def _merged(adapter: Adapter) -> PreTrainedModel:
    model = random_model("llama")
    for name, low in adapter.items():
        model.get_submodule(name).weight.data += low.scale * low.up_O_R @ low.down_R_I
    return model


def _request(adapter: str | None, seed: int = 0) -> Request:
    return Request(prompt_ids=PROMPT, seed=seed, num_samples=2, params=PARAMS, adapter=adapter)


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"path": "auto"}])
def test_samples_of_several_adapters_go_together_and_each_is_as_with_merged_weights(options):
    model = random_model("llama")
    engine = _engine(model, **options)
    adapters = {"a": _adapter(model, 1), "b": _adapter(model, 2)}
    for name, adapter in adapters.items():
        engine.put_adapter(name, adapter)
    requests = [_request("a"), _request(None), _request("b"), _request("a", seed=1)]
    done = {(f.request, f.sample): f.completion for f in engine.sample(requests)}
    models = [_merged(adapters["a"]), random_model("llama"), _merged(adapters["b"]), _merged(adapters["a"])]
    for index, alone in enumerate(models):
        (expected, _) = (f.completion for f in _engine(alone).sample([_request(None)]))
        assert done[index, 1].token_ids == expected.token_ids
        assert done[index, 1].logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert len({completion.token_ids for completion in done.values()}) == 3


def test_an_adapter_is_swapped_while_running_and_its_old_prefixes_are_not_used():
    model = random_model("llama")
    engine = _engine(model)
    replies = []
    for seed in (1, 2):
        engine.put_adapter("a", _adapter(model, seed))
        number = engine.submit(_request("a"))
        events = [event for _ in range(12) for event in engine.step()]
        replies.append(next(e.completion for e in events if isinstance(e, Finished) and e.request == number))
    assert engine.counts["prefix_tokens"] == 0
    (expected, _) = (f.completion for f in _engine(_merged(_adapter(model, 2))).sample([_request(None)]))
    assert replies[1].token_ids == expected.token_ids != replies[0].token_ids


@pytest.mark.parametrize("path", ["torch", "native"])
def test_an_adapter_that_is_swapped_in_flight_goes_on_with_the_keys_and_values_that_it_has(path: str):
    """As transformers do it: the new weights on the old ones' cache, from the token after the swap on."""
    model = random_model("llama")
    if path == "native" and (reason := reason_why_not(model)):
        pytest.skip(reason)
    old, new = _adapter(model, 1), _adapter(model, 2)
    engine = _engine(model, path=path)
    engine.put_adapter("a", old)
    number = engine.submit(replace(_request("a"), num_samples=1))
    drawn = [event for _ in range(4) for event in engine.step() if isinstance(event, Sampled)]
    engine.put_adapter("a", new)
    (done,) = [e.completion for _ in range(8) for e in engine.step() if isinstance(e, Finished) and e.request == number]
    assert done.token_ids[: len(drawn)] == tuple(event.token_id for event in drawn)
    expected = _swapped(old, new, [*PROMPT, *done.token_ids], len(PROMPT) + len(drawn) - 1)
    assert done.logprobs == pytest.approx(expected, abs=1e-4)


@torch.inference_mode()
def _swapped(old: Adapter, new: Adapter, token_ids: list[int], num_old: int) -> list[float]:
    """Log-probabilities of all tokens behind the prompt, of which the first ones were computed with the old adapter."""
    before, after = (plain_copy(_merged(adapter)) for adapter in (old, new))
    first = before(torch.tensor([token_ids[:num_old]]), use_cache=True)
    second = after(torch.tensor([token_ids[num_old:]]), past_key_values=first.past_key_values)
    logprobs_T_V = torch.cat([first.logits[0], second.logits[0]]).log_softmax(-1)
    return [logprobs_T_V[place - 1, token_ids[place]].item() for place in range(len(PROMPT), len(token_ids))]


def test_an_adapter_is_read_from_a_folder_of_pefts_format(tmp_path: Path):
    trained = random_model("llama")
    add_lora(trained, rank=2, alpha=6, targets="all-linear", seed=0)
    for module in trained.modules():
        if isinstance(module, LoraLinear):
            nn.init.normal_(module.up, std=0.3, generator=torch.Generator().manual_seed(0))
    save_adapter(trained, tmp_path)
    engine = _engine(random_model("llama"))
    engine.put_adapter("a", read_adapter(tmp_path))
    (served, _) = (f.completion for f in engine.sample([_request("a")]))
    (expected, _) = (f.completion for f in _engine(trained).sample([_request(None)]))
    assert served.token_ids == expected.token_ids


GOOD = {"r": 2, "lora_alpha": 4}
A, B = (f"base_model.model.model.layers.0.mlp.up_proj.lora_{part}.weight" for part in "AB")


@pytest.mark.parametrize(
    ("config", "shapes", "message"),
    [
        ("[]", {}, "adapter_config.json"),
        ("{", {}, "adapter_config.json.*Invalid JSON"),
        ({"lora_alpha": 4}, {}, "adapter_config.json, r: Field required"),
        ({"r": 0, "lora_alpha": 4}, {}, "adapter_config.json, r: .*greater than or equal to 1"),
        ({"r": 2}, {}, "lora_alpha: Field required"),
        ({"r": 2, "lora_alpha": "much"}, {}, "lora_alpha: .*valid number"),
        (GOOD | {"use_dora": True}, {}, "it has 'use_dora', which is not supported"),
        (GOOD, {A: (2, 32)}, r"got \(2, 32\) and none; is the file whole"),
        (GOOD, {A: (3, 32), B: (48, 3)}, r"expected lora_A of \(2, inputs\).*got \(3, 32\) and \(48, 3\)"),
        (GOOD, {A: (2,), B: (48, 2)}, r"got \(2,\) and \(48, 2\)"),
        (GOOD, {"model.layers.0.mlp.up_proj.lora_A.weight": (2, 32)}, "'model.layers.0.* which is not supported"),
        (GOOD, {A.replace("lora_A.weight", "bias"): (2,)}, "up_proj.bias', which is not supported"),
    ],
)
def test_an_adapter_that_is_damaged_is_refused_with_what_is_wrong(tmp_path: Path, config, shapes, message: str):
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "adapter_config.json").write_text(text)
    save_file({name: torch.zeros(shape) for name, shape in shapes.items()}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ConfigError, match=message):
        read_adapter(tmp_path)


def test_what_is_not_an_adapter_of_the_model_is_refused(tmp_path: Path):
    engine = _engine(random_model("llama"))
    with pytest.raises(ConfigError, match="no adapter 'a'; there are: none"):
        next(engine.sample([_request("a")]))
    with pytest.raises(ConfigError, match="which the model has not"):
        engine.put_adapter("a", {"model.layers.9.mlp": LowRank(torch.zeros(1, 1), torch.zeros(1, 1), 1.0)})
    with pytest.raises(ConfigError, match="adapts the head 'lm_head', which is not covered"):
        engine.put_adapter("a", {"lm_head": LowRank(torch.zeros(1, 32), torch.zeros(259, 1), 1.0)})
    wrong = {"model.layers.0.mlp.up_proj": LowRank(torch.zeros(1, 5), torch.zeros(5, 1), 1.0)}
    with pytest.raises(ConfigError, match=r"expected \(48, 32\), got \(5, 5\)"):
        engine.put_adapter("a", wrong)
    with pytest.raises(ConfigError, match="cannot read a LoRA adapter"):
        read_adapter(tmp_path)
