"""Named LoRA adapters over one set of base weights: each token of a packed row is computed with that of its sample.

The base's products are those of all tokens together; where an adapter names a linear layer, a hook adds
(alpha / r) B A x (LoRA, https://arxiv.org/abs/2106.09685, eq. 3) to the tokens that are its own. So a step serves any
number of adapters, and an adapter comes, goes or changes between two steps without touching the weights.

Covered: linear layers that see each token once. Not covered: a base with an adapter that trains (refused), experts
that see some tokens only (refused), adapters with biases, on embeddings or the head, or DoRA (refused).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.models.lora import LoraLinear

_PREFIX = "base_model.model."
_ENDS = (".lora_A.weight", ".lora_B.weight")


class _PeftConfig(BaseModel):
    """What is read of `adapter_config.json`; its other fields say how the adapter was trained."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    r: int = Field(ge=1)
    lora_alpha: float
    use_rslora: bool = False
    use_dora: bool = False
    alpha_pattern: dict[str, float] | None = None
    rank_pattern: dict[str, int] | None = None
    modules_to_save: list[str] | None = None


class LowRank(NamedTuple):
    """What an adapter adds to one layer."""

    down_R_I: Tensor
    up_O_R: Tensor
    scale: float


class Segment(NamedTuple):
    """Tokens `start` to `stop` of a packed row, and whose they are."""

    adapter: str | None
    start: int
    stop: int


Adapter = Mapping[str, LowRank]
"""By the name of the linear layer."""


class Adapters:
    """The adapters of a model, by name."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._adapters: dict[str, Adapter] = {}
        self._hooked: set[str] = set()
        self._segments: Sequence[Segment] = ()

    def put(self, name: str, adapter: Adapter) -> None:
        """Add an adapter, or put another in its place; `ConfigError` if it is not of this model."""
        layers = check_adapter(self._model, name, adapter)
        for layer in adapter.keys() - self._hooked:
            layers[layer].register_forward_hook(self._hook(layer))
            self._hooked.add(layer)
        self._adapters[name] = {
            layer: LowRank(low.down_R_I.to(layers[layer].weight), low.up_O_R.to(layers[layer].weight), low.scale)
            for layer, low in adapter.items()
        }

    @contextmanager
    def applied(self, segments: Sequence[Segment]) -> Iterator[None]:
        """Compute each segment with its adapter within the block."""
        self._segments = [segment for segment in segments if segment.adapter is not None]
        try:
            yield
        finally:
            self._segments = ()

    def _hook(self, layer: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            for name, start, stop in self._segments:
                low = self._adapters[name or ""].get(layer)
                if low is not None:
                    x_T_I, out_T_O = inputs[0].flatten(0, -2), output.view(-1, output.shape[-1])
                    if len(x_T_I) < self._segments[-1].stop:
                        raise ConfigError(f"adapter {name!r}, layer {layer!r}: it does not see all tokens")
                    down_T_R = functional.linear(x_T_I[start:stop], low.down_R_I) * low.scale
                    out_T_O[start:stop] += functional.linear(down_T_R, low.up_O_R)

        return add


def check_adapter(model: PreTrainedModel, name: str, adapter: Adapter) -> dict[str, nn.Linear]:
    """The model's linear layers by name; `ConfigError` if an adapter cannot be served over them."""
    if any(isinstance(module, LoraLinear) for module in model.modules()):
        raise ConfigError(f"adapter {name!r}: the model trains an adapter of its own; serve it from the base model")
    head = model.get_output_embeddings()
    layers = {layer: module for layer, module in model.named_modules() if isinstance(module, nn.Linear)}
    for layer, low in adapter.items():
        if layer not in layers:
            raise ConfigError(f"adapter {name!r} names layer {layer!r}, which the model has not; is it of this model?")
        if layers[layer] is head:
            raise ConfigError(f"adapter {name!r} adapts the head {layer!r}, which is not covered; train one without it")
        expected = (layers[layer].out_features, layers[layer].in_features)
        got = (len(low.up_O_R), low.down_R_I.shape[1])
        if got != expected:
            raise ConfigError(f"adapter {name!r}, layer {layer!r}: expected {expected}, got {got}")
    return layers


def read_adapter(folder: Path) -> Adapter:
    """Read an adapter in peft's format."""
    where = f"a LoRA adapter from {str(folder)!r}"
    try:
        config = _PeftConfig.model_validate_json((folder / "adapter_config.json").read_bytes())
        tensors = load_file(folder / "adapter_model.safetensors")
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"]))
        raise ConfigError(f"cannot read {where}: adapter_config.json, {field}: {fault['msg']}") from error
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"cannot read {where}: {error}") from error
    unmet = [key for key in ("use_dora", "alpha_pattern", "rank_pattern", "modules_to_save") if getattr(config, key)]
    unmet += [key for key in sorted(tensors) if not (key.startswith(_PREFIX) and key.endswith(_ENDS))]
    if unmet:
        raise ConfigError(f"cannot read {where}: it has {unmet[0]!r}, which is not supported; only A and B are")
    names = sorted({key.removeprefix(_PREFIX).rsplit(".lora_", 1)[0] for key in tensors})
    scale = config.lora_alpha / (math.sqrt(config.r) if config.use_rslora else config.r)
    return {name: LowRank(*_pair(tensors, name, config.r, where), scale) for name in names}


def _pair(tensors: Mapping[str, Tensor], name: str, rank: int, where: str) -> tuple[Tensor, Tensor]:
    """A and B of one layer; `ConfigError` unless both are there and of the rank that the configuration says."""
    shapes = {end: tuple(tensors[key].shape) for end in _ENDS if (key := f"{_PREFIX}{name}{end}") in tensors}
    down, up = (shapes.get(end, ()) for end in _ENDS)
    if len(down) != 2 or len(up) != 2 or down[0] != rank or up[1] != rank:
        raise ConfigError(
            f"cannot read {where}: layer {name!r}: expected lora_A of ({rank}, inputs) and lora_B of "
            f"(outputs, {rank}), got {down or 'none'} and {up or 'none'}; is the file whole?"
        )
    return tensors[f"{_PREFIX}{name}{_ENDS[0]}"], tensors[f"{_PREFIX}{name}{_ENDS[1]}"]


def segments_of(adapters: Sequence[str | None], lengths: Sequence[int], num_added: int = 0) -> list[Segment]:
    """Neighbours of one adapter are one segment; `num_added` tokens at the end go with the last."""
    segments: list[Segment] = []
    stop = 0
    for adapter, length in zip(adapters, lengths, strict=True):
        start, stop = stop, stop + length
        if segments and segments[-1].adapter == adapter:
            start = segments.pop().start
        segments.append(Segment(adapter, start, stop))
    segments[-1] = segments[-1]._replace(stop=stop + num_added)
    return segments
