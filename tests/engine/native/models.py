"""Tiny random models of all families that the native step covers, and a loop that decodes with a path."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from burnish.engine.adapters import Adapter, LowRank
from burnish.engine.steps import Steps, Work
from burnish.models.attention import IMPLEMENTATION

_SHAPE: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "initializer_range": 0.3,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 256,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
FAMILIES: dict[str, tuple[type[PreTrainedModel], type[Any], dict[str, Any]]] = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "llama-biased": (LlamaForCausalLM, LlamaConfig, {"attention_bias": True, "mlp_bias": True}),
    "llama-rope-llama3": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": _LLAMA3, "tie_word_embeddings": True}),
    "llama-rope-yarn": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": _YARN, "num_key_value_heads": 6}),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": None}),
    "mistral-windowed": (MistralForCausalLM, MistralConfig, {"sliding_window": 7}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"num_key_value_heads": 1}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"tie_word_embeddings": True}),
}


def make(family: str, **changes: Any) -> PreTrainedModel:
    """A random float32 model with our attention; biases are random too."""
    model_class, config_class, own = FAMILIES[family]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = model_class(config_class(**{**_SHAPE, **own, **changes})).eval().requires_grad_(False)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
    model.set_attn_implementation(IMPLEMENTATION)
    return model


def adapter_of(model: PreTrainedModel, rank: int, seed: int, but: str = "lm_head", scale: float = 1.5) -> Adapter:
    """Random, on each linear layer whose name has not `but` in it."""
    generator = torch.Generator().manual_seed(seed)
    linears = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and but not in n}
    linears.pop("lm_head", None)
    return {
        name: LowRank(
            torch.randn(rank, linear.in_features, generator=generator) / 8,
            torch.randn(linear.out_features, rank, generator=generator) / 8,
            scale,
        )
        for name, linear in linears.items()
    }


def prompt(length: int, seed: int = 0) -> list[int]:
    """Random token ids."""
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def decode(steps: Steps, branches: Sequence[int], hidden_B_D: Tensor, num_new: int) -> list[list[int]]:
    """Decode rows greedily, all together."""
    zeros_B = torch.zeros(len(branches))
    rows: list[list[int]] = [[] for _ in branches]
    while True:
        for row, token_id in zip(rows, steps.draw(hidden_B_D, zeros_B, zeros_B).token_ids_B.tolist(), strict=True):
            row.append(token_id)
        if len(rows[0]) == num_new:
            return rows
        work = [Work(branch, row[-1:]) for branch, row in zip(branches, rows, strict=True)]
        hidden_B_D = steps.feed(work)
