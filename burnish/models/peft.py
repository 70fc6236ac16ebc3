"""LoRA adapters in peft's file format, which vLLM and SGLang load: `adapter_config.json`, `adapter_model.safetensors`.

The format is that of https://huggingface.co/docs/peft/developer_guides/checkpoint; peft itself is not needed.
Not covered: reading one back.
"""

import json
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from burnish.models.lora import LoraLinear


def save_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write the adapters of a model into an existing folder, in the model's precision."""
    adapters = {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}
    assert adapters, "the model has no adapters"
    ranks = {adapter.down.shape[0] for adapter in adapters.values()}
    scales = {adapter.scale for adapter in adapters.values()}
    assert len(ranks) == len(scales) == 1, "adapters of one rank and one scale"
    rank = ranks.pop()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model.config.name_or_path,
        "r": rank,
        "lora_alpha": scales.pop() * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({name.rpartition(".")[2] for name in adapters}),
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    save_file(_tensors(adapters), folder / "adapter_model.safetensors", metadata={"format": "pt"})


def _tensors(adapters: dict[str, LoraLinear]) -> dict[str, Tensor]:
    return {
        f"base_model.model.{name}.{part}.weight": tensor.detach().cpu().contiguous()
        for name, adapter in adapters.items()
        for part, tensor in (("lora_A", adapter.down), ("lora_B", adapter.up))
    }
