"""Low-rank adapters: y = W x + (alpha / rank) B A x (LoRA, https://arxiv.org/abs/2106.09685, eq. 3).

A is drawn Kaiming-uniform (a = sqrt 5, as the authors' code does; the paper says Gaussian), B is zero, so that
an adapted model starts as its base. Only A and B train.
Every linear layer but the head is adapted unless `targets` says otherwise; the paper adapts the attention only.

Not covered: dropout on the adapter's input, adapters on embeddings.
"""

import math
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive


class LoraLinear(nn.Module):
    """A linear layer with a low-rank addition."""

    def __init__(self, base: nn.Linear, rank: int, scale: float, seed: int) -> None:
        super().__init__()
        self.base = base
        self.scale = scale
        generator = torch.Generator().manual_seed(seed)
        bound = 1 / math.sqrt(base.in_features)
        down_R_I = (torch.rand(rank, base.in_features, generator=generator) * 2 - 1) * bound
        self.down = nn.Parameter(down_R_I.to(base.weight))
        self.up = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return self.base(x) + functional.linear(functional.linear(x, self.down) * self.scale, self.up)


def add_lora(model: PreTrainedModel, *, rank: int, alpha: float, targets: str, seed: int) -> None:
    """Adapt the linear layers that `targets` names (`all-linear`, or a regular expression) and freeze the rest."""
    linears = _linears(model)
    chosen = {n: m for n, m in linears.items() if targets == "all-linear" or _matches(targets, n)}
    if not chosen:
        raise ConfigError(f"lora targets {targets!r} match no linear layer; there are: {', '.join(_kinds(linears))}")
    model.requires_grad_(False)
    for name, linear in chosen.items():
        parent, _, attribute = name.rpartition(".")
        adapted = LoraLinear(linear, rank, alpha / rank, derive(seed, "lora", name))
        setattr(model.get_submodule(parent), attribute, adapted)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that train, by name, sorted."""
    return dict(sorted((name, p) for name, p in model.named_parameters() if p.requires_grad))


@torch.no_grad()
def merged_state_dict(model: PreTrainedModel, masters: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The weights in float32 under the base model's names, adapters merged; tied weights stand once.

    `masters` are more exact values of the base weights; those it lacks come from the model.
    """
    given = masters or {}
    adapters = _adapters(model)
    merged: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        owner, _, leaf = name.rpartition(".")
        if owner in adapters:
            continue
        original = re.sub(r"\.base\.", ".", name) if owner.removesuffix(".base") in adapters else name
        value = given.get(original, parameter).detach().to(torch.float32, copy=True)
        if leaf == "weight" and (adapter := adapters.get(owner.removesuffix(".base"))):
            value += adapter.scale * (adapter.up.float() @ adapter.down.float())
        merged[original] = value
    return merged


def _linears(model: PreTrainedModel) -> dict[str, nn.Linear]:
    head = model.get_output_embeddings()
    return {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head}


def _adapters(model: nn.Module) -> dict[str, LoraLinear]:
    return {n: m for n, m in model.named_modules() if isinstance(m, LoraLinear)}


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error as error:
        raise ConfigError(f"lora targets {pattern!r} is no regular expression: {error}; or say 'all-linear'") from None


def _kinds(linears: Mapping[str, nn.Linear]) -> list[str]:
    """Names with the layer number as N, each once."""
    return sorted({re.sub(r"\.\d+\.", ".N.", name) for name in linears})
