"""Load a model by name: `starter`, `gemma3-270m`, `tiny`, a Hugging Face folder, a .gguf file or a hub id.

A loaded model is in its compute precision, in eval mode, frozen, runs our attention, and has been proven on a few
tokens to compute what its own code computes. The float32 (or stored) weights stay in `master_folder`.

Covered: decoder-only text models. Not covered: quantised compute, weights split over devices.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from burnish.core.errors import ConfigError
from burnish.models import gguf
from burnish.models.attention import IMPLEMENTATION
from burnish.models.forward import check_forward
from burnish.models.kernels.layers import use_kernels
from burnish.models.tiny import tiny_model, tiny_tokenizer

DtypeName = Literal["auto", "float32", "bfloat16"]

_TOLERANCE_NATS = {torch.float32: 1e-3, torch.bfloat16: 0.5}
_NAMES = ("tiny", "starter", "gemma3-270m")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model ready to run, its tokenizer, and where its master weights lie (None: they are the model's own)."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    dtype: torch.dtype
    master_folder: Path | None = None


def load(name: str, *, dtype: DtypeName = "auto", cache: Path | None = None) -> Loaded:
    """Load a model; `ConfigError` says what is missing or not supported."""
    if name == "tiny":
        return _ready(name, tiny_model(), tiny_tokenizer(), _dtype(dtype, torch.float32), None)
    folder = _folder(name, cache or gguf.default_cache())
    disable_progress_bar()  # reading a folder takes seconds; a conversion keeps its bar
    chosen = _dtype(dtype, torch.bfloat16 if has_fast_bfloat16() else torch.float32)
    with _unreadable(f"model {name!r} from {str(folder)!r}"):
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, dtype=chosen, attn_implementation=IMPLEMENTATION, local_files_only=True
        )
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return _ready(name, model, tokenizer, chosen, folder)


def load_tokenizer(name: str, *, cache: Path | None = None) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer alone."""
    if name == "tiny":
        return tiny_tokenizer()
    folder = _folder(name, cache or gguf.default_cache())
    with _unreadable(f"the tokenizer of model {name!r} from {str(folder)!r}"):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)


@contextmanager
def _unreadable(what: str) -> Iterator[None]:
    """Turn the faults of files into a message."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        raise ConfigError(f"cannot load {what}: {error}") from error


def _ready(
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    master_folder: Path | None,
) -> Loaded:
    model.set_attn_implementation(IMPLEMENTATION)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)  # not the buffers: rounded rotary frequencies turn by whole radians
    model.eval().requires_grad_(False)
    use_kernels(model)
    try:
        check_forward(model, _TOLERANCE_NATS[dtype])
    except (TypeError, NotImplementedError, AttributeError) as error:
        kind = model.config.model_type
        raise ConfigError(f"model {name!r} of type {kind!r} does not run packed attention: {error}") from error
    return Loaded(model=model, tokenizer=tokenizer, name=name, dtype=dtype, master_folder=master_folder)


def _folder(name: str, cache: Path) -> Path:
    if name == "starter":
        return gguf.starter_folder(cache)
    if name == "gemma3-270m":
        return gguf.gemma_folder(cache)
    check_name(name)
    if name.endswith(".gguf"):
        return gguf.gguf_folder(Path(name), cache)
    path = Path(name).expanduser()
    return path if path.is_dir() else _from_hub(name)


def check_name(name: str) -> None:
    """Raise `ConfigError` if a name can be seen to lead nowhere, without loading or fetching anything."""
    path = Path(name).expanduser()
    if name in _NAMES or (name.endswith(".gguf") and path.is_file()):
        return
    if name.endswith(".gguf"):
        raise ConfigError(f"no model file {name!r}; give the path of a .gguf file")
    if path.is_dir() and not (path / "config.json").is_file():
        raise ConfigError(f"model folder {str(path)!r} has no config.json; expected a Hugging Face model folder")
    if not path.is_dir() and not _HUB_ID.fullmatch(name):
        raise ConfigError(
            f"no model {name!r}: there is no such folder; give starter, gemma3-270m, tiny, "
            "a Hugging Face folder, a .gguf file or a hub id (org/name)"
        )


def _from_hub(name: str) -> Path:
    """Fetch from the hub; its errors for a missing network are subclasses of OSError or ConnectionError."""
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except LocalEntryNotFoundError as error:
        raise ConfigError(
            f"model {name!r} is neither a folder nor in the local hub cache, and the hub cannot be reached; "
            "give the path of a folder, or go online"
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise ConfigError(f"cannot fetch model {name!r} from the hub: {error}") from error


def _dtype(name: DtypeName, automatic: torch.dtype) -> torch.dtype:
    return {"auto": automatic, "float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def has_fast_bfloat16() -> bool:
    """Whether the processor has bfloat16 instructions (Linux on x86; elsewhere no)."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"\b(avx512_bf16|amx_bf16)\b", flags) is not None
