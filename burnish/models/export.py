"""Write a model as a plain Hugging Face folder; fingerprint its trainable weights.

The folder holds merged float32 weights (or what `dtype` says), config, generation config, tokenizer and chat
template, and nothing of ours: transformers, vLLM and llama.cpp's converter load it. It appears whole or not at all.
"""

import copy
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from burnish.core.errors import RunFolderError
from burnish.core.run_folder import PART
from burnish.models.load import Loaded
from burnish.models.lora import merged_state_dict, trainable


def export(
    loaded: Loaded, folder: Path, masters: Mapping[str, Tensor] | None = None, dtype: torch.dtype = torch.float32
) -> None:
    """Write `loaded` with its adapters merged; `masters` are float32 values by the model's names."""
    weights = {name: value.to(dtype) for name, value in merged_state_dict(loaded.model, masters).items()}
    try:
        _write_whole(folder, loaded.model, loaded.tokenizer, weights)
    except (OSError, SafetensorError) as error:
        raise RunFolderError(
            f"cannot export the model to {str(folder)!r}: {error}; free the disk or choose another"
        ) from error


def fingerprint(model: nn.Module) -> str:
    """Sha-256 over the names and bytes of the trainable parameters."""
    digest = hashlib.sha256()
    for name, parameter in trainable(model).items():
        digest.update(f"{name}{tuple(parameter.shape)}{parameter.dtype}".encode())
        digest.update(parameter.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _write_whole(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, weights: Mapping[str, Tensor]
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.", suffix=PART) as scratch:
        made = Path(scratch) / "model"
        plain = _plain(model, weights)
        plain.generation_config.eos_token_id = _stops(model.generation_config, tokenizer)
        plain.save_pretrained(made)
        tokenizer.save_pretrained(made)
        if folder.exists():
            os.replace(folder, Path(scratch) / "old")
        os.replace(made, folder)


def _plain(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> PreTrainedModel:
    """The same architecture with these weights; which attention we run is not part of a saved config."""
    config: PretrainedConfig = copy.deepcopy(model.config)
    config.dtype = next(iter(weights.values())).dtype
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(weights, strict=False, assign=True)
    plain.tie_weights()
    missing = [name for name, parameter in plain.named_parameters() if parameter.is_meta]
    assert not missing, f"no weights for {missing[:3]}"
    plain.generation_config = copy.deepcopy(model.generation_config)
    return plain


def _stops(generation: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase) -> int | list[int]:
    given = generation.eos_token_id if generation is not None else None
    listed = given if isinstance(given, list) else [given]
    stops = sorted({i for i in [*listed, tokenizer.eos_token_id] if isinstance(i, int)})
    return stops if len(stops) > 1 else stops[0]
