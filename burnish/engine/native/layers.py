"""What of a model the native step needs, and why it cannot run some.

Covered: Llama, Mistral, Qwen2 and Qwen3 as transformers builds them, in float32 or bfloat16, with biases, tied or
untied heads, sliding windows, every static rope scaling, and our LoRA adapters (merged when packed). Not covered:
rope that changes with the length, mixtures of experts, soft-capping, other activations than SiLU.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.models.lora import LoraLinear

_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_STATIC_ROPES = ("default", "linear", "llama3", "yarn")
_MOST_HEAD_WIDTH = 256
_MOST_REPEATS = 48
_COLUMNS = 16
_NAMES = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
HEAD = len(_NAMES)


class Sizes(NamedTuple):
    """The model's shape."""

    num_layers: int
    width: int
    num_heads: int
    num_kv_heads: int
    head_width: int
    inner_width: int
    vocabulary: int
    eps: float
    attention_scale: float
    windows_L: tuple[int, ...]
    """Of each layer; 0 sees all."""


class Group(NamedTuple):
    """Linear layers that become one matrix, and which of a layer's matrices that is (see csrc/api.h)."""

    layer: int
    which: int
    linears: Mapping[str, nn.Module]
    """By name, in order."""


class Norm(NamedTuple):
    """The weight of one norm (see csrc/api.h for `which`)."""

    layer: int
    which: int
    weight: Tensor


def why_not(model: PreTrainedModel) -> str | None:
    """Why the native step cannot run a model; None if it can."""
    kind = model.config.model_type
    if kind not in _FAMILIES:
        return f"models of type {kind!r} are not covered, only {', '.join(_FAMILIES)}"
    weight = model.get_input_embeddings().get_parameter("weight")
    if weight.device.type != "cpu":
        return f"the model is on {weight.device.type!r}, not on the processor"
    if weight.dtype not in (torch.float32, torch.bfloat16):
        return f"the model is in {weight.dtype}, not in float32 or bfloat16"
    return _odd_option(model) or _odd_size(sizes(model), len(weight)) or _odd_layer(model, weight.dtype)


def sizes(model: PreTrainedModel) -> Sizes:
    """Read the shape from a model's configuration."""
    config = model.config.to_dict()
    head = model.get_output_embeddings()
    assert head is not None
    num_heads: int = config["num_attention_heads"]
    head_width: int = config.get("head_dim") or config["hidden_size"] // num_heads
    return Sizes(
        num_layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        num_heads=num_heads,
        num_kv_heads=config.get("num_key_value_heads") or num_heads,
        head_width=head_width,
        inner_width=config["intermediate_size"],
        vocabulary=head.get_parameter("weight").shape[0],
        eps=config["rms_norm_eps"],
        attention_scale=head_width**-0.5,
        windows_L=_windows(model),
    )


def groups(model: PreTrainedModel) -> Iterator[Group]:
    """All matrices of a model."""
    for layer in range(model.config.num_hidden_layers):
        for which, names in enumerate(_NAMES):
            paths = [f"model.layers.{layer}.{name}" for name in names]
            yield Group(layer, which, {path: model.get_submodule(path) for path in paths})
    head = model.get_output_embeddings()
    assert head is not None
    yield Group(0, HEAD, {"lm_head": head})


def norms(model: PreTrainedModel) -> Iterator[Norm]:
    """All norms of a model."""
    names = ["input_layernorm", "post_attention_layernorm"]
    if model.config.model_type == "qwen3":
        names += ["self_attn.q_norm", "self_attn.k_norm"]
    for layer in range(model.config.num_hidden_layers):
        for which, name in enumerate(names):
            yield Norm(layer, which, model.get_parameter(f"model.layers.{layer}.{name}.weight"))
    yield Norm(0, 4, model.get_parameter("model.norm.weight"))


def inverse_frequencies(model: PreTrainedModel) -> Tensor:
    """Rope's, as the model computes with them."""
    return model.get_buffer("model.rotary_emb.inv_freq").float().contiguous()


def rope_scale(model: PreTrainedModel) -> float:
    """What rope's cosines and sines are multiplied by."""
    return float(model.get_submodule("model.rotary_emb").attention_scaling)  # type: ignore[arg-type]  # a plain float


def base_of(linear: nn.Module) -> nn.Linear:
    """The layer below an adapter, if there is one."""
    base = linear.base if isinstance(linear, LoraLinear) else linear
    assert isinstance(base, nn.Linear)
    return base


def _windows(model: PreTrainedModel) -> tuple[int, ...]:
    config = model.config.to_dict()
    window: int = config.get("sliding_window") or 0
    if model.config.model_type == "llama":
        window = 0
    kinds: list[str] = config.get("layer_types") or ["sliding_attention"] * config["num_hidden_layers"]
    return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)


def _odd_option(model: PreTrainedModel) -> str | None:
    config = model.config.to_dict()
    if config["hidden_act"] != "silu":
        return f"its activation is {config['hidden_act']!r}, not 'silu'"
    rope = (config.get("rope_parameters") or {}).get("rope_type", "default")
    if rope not in _STATIC_ROPES:
        return f"its rope scaling {rope!r} is not covered, only {', '.join(_STATIC_ROPES)}"
    if config.get("final_logit_softcapping"):
        return "its logits are soft-capped"
    return None


def _odd_size(size: Sizes, embedding_rows: int) -> str | None:
    if size.head_width % _COLUMNS or size.head_width > _MOST_HEAD_WIDTH:
        return f"its heads are {size.head_width} wide; that must be a multiple of {_COLUMNS} up to {_MOST_HEAD_WIDTH}"
    if size.width % _COLUMNS:
        return f"its width is {size.width}, not a multiple of {_COLUMNS}"
    if size.vocabulary != embedding_rows:
        return f"it embeds {embedding_rows} tokens, and its head knows {size.vocabulary}"
    if size.num_heads % size.num_kv_heads or size.num_heads // size.num_kv_heads > _MOST_REPEATS:
        return f"its {size.num_heads} heads share {size.num_kv_heads} keys and values unevenly, or too many share one"
    return None


def _odd_layer(model: PreTrainedModel, dtype: torch.dtype) -> str | None:
    if 2 * len(inverse_frequencies(model)) != sizes(model).head_width:
        return "its rope turns only a part of each head"
    for group in groups(model):
        for linear in group.linears.values():
            base = linear.base if isinstance(linear, LoraLinear) else linear
            if type(base) is not nn.Linear:
                return f"it has a layer of type {type(base).__name__!r}, where a plain linear one is expected"
            if base.weight.dtype != dtype:
                return f"its weights are of several types: {base.weight.dtype} and {dtype}"
    return None
