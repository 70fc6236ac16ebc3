"""Low-rank adapters: y = W x + (alpha / rank) B A x (LoRA, https://arxiv.org/abs/2106.09685, eq. 3).

`stabilised` scales by alpha / sqrt(rank) instead, so that a larger rank learns as fast (rsLoRA,
https://arxiv.org/abs/2312.03732, eq. 4: gamma_r is of the order of 1 / sqrt(r)).

A is drawn Kaiming-uniform (a = sqrt 5, as the authors' code does; the paper says Gaussian), B is zero, so that
an adapted model starts as its base. Only A and B train.
Every linear layer but the head is adapted unless `targets` says otherwise; the paper adapts the attention only.

`merged` computes with W + scale B A within a block, without the adapters' two products. The base weights are kept
aside and put back, since subtracting what was added would not give them back bit by bit.

Not covered: dropout on the adapter's input, adapters on embeddings.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
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
        self.is_merged = False
        generator = torch.Generator().manual_seed(seed)
        bound = 1 / math.sqrt(base.in_features)
        down_R_I = (torch.rand(rank, base.in_features, generator=generator) * 2 - 1) * bound
        self.down = nn.Parameter(down_R_I.to(base.weight))
        self.up = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        if self.is_merged:
            return self.base(x)
        x_N_I = x.reshape(-1, x.shape[-1])
        y_N_O = _Adapted.apply(x_N_I, self.base.weight, self.base.bias, self.down, self.up, self.scale)
        return y_N_O.view(*x.shape[:-1], -1)  # type: ignore[no-any-return]  # untyped


class _Adapted(torch.autograd.Function):
    """W x + b + scale B A x; what A and B add goes into the products with W, both ways, without a sum of its own."""

    @staticmethod
    def forward(
        ctx: Any, x_N_I: Tensor, weight_O_I: Tensor, bias_O: Tensor | None, down_R_I: Tensor, up_O_R: Tensor,
        scale: float,
    ):  # fmt: skip
        inner_N_R = functional.linear(x_N_I, down_R_I)
        ctx.save_for_backward(x_N_I, weight_O_I, down_R_I, up_O_R, inner_N_R)
        ctx.scale = scale
        return functional.linear(x_N_I, weight_O_I, bias_O).addmm_(inner_N_R, up_O_R.T, alpha=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator names ctx otherwise
        (dy_N_O,) = grads
        x_N_I, weight_O_I, down_R_I, up_O_R, inner_N_R = ctx.saved_tensors
        needed = ctx.needs_input_grad
        dinner_N_R = dy_N_O @ up_O_R
        dx_N_I = (dy_N_O @ weight_O_I).addmm_(dinner_N_R, down_R_I, alpha=ctx.scale) if needed[0] else None
        dweight_O_I = dy_N_O.T @ x_N_I if needed[1] else None
        dbias_O = dy_N_O.sum(0) if needed[2] else None
        ddown_R_I, dup_O_R = (dinner_N_R.T @ x_N_I).mul_(ctx.scale), (dy_N_O.T @ inner_N_R).mul_(ctx.scale)
        return dx_N_I, dweight_O_I, dbias_O, ddown_R_I, dup_O_R, None


def add_lora(
    model: PreTrainedModel, *, rank: int, alpha: float, targets: str, seed: int, stabilised: bool = False
) -> None:
    """Adapt the linear layers that `targets` names (`all-linear`, or a regular expression) and freeze the rest."""
    linears = _linears(model)
    chosen = {n: m for n, m in linears.items() if targets == "all-linear" or _matches(targets, n)}
    if not chosen:
        raise ConfigError(f"lora targets {targets!r} match no linear layer; there are: {', '.join(_kinds(linears))}")
    model.requires_grad_(False)
    for name, linear in chosen.items():
        parent, _, attribute = name.rpartition(".")
        scale = alpha / (math.sqrt(rank) if stabilised else rank)
        adapted = LoraLinear(linear, rank, scale, derive(seed, "lora", name))
        setattr(model.get_submodule(parent), attribute, adapted)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that train, by name, sorted."""
    return dict(sorted((name, p) for name, p in model.named_parameters() if p.requires_grad))


@torch.no_grad()
def merged_state_dict(model: PreTrainedModel, masters: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The weights in float32 under the base model's names, adapters merged; tied weights stand once.

    `masters` are more exact values, of base weights and of adapters by their names; what it lacks comes from the model.
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
        if leaf == "weight" and (adapter := adapters.get(adapted := owner.removesuffix(".base"))):
            up, down = given.get(f"{adapted}.up", adapter.up), given.get(f"{adapted}.down", adapter.down)
            value += adapter.scale * (up.detach().float() @ down.detach().float())
        merged[original] = value
    return merged


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Compute with merged weights within the block; behind it each base weight has its own bits again."""
    adapters = list(_adapters(model).values())
    kept = [adapter.base.weight.detach().clone() for adapter in adapters]
    try:
        for adapter in adapters:
            _merge(adapter)
        yield
    finally:
        for adapter, weight in zip(adapters, kept, strict=True):
            _unmerge(adapter, weight)


@torch.no_grad()
def _merge(adapter: LoraLinear) -> None:
    delta = adapter.scale * (adapter.up.float() @ adapter.down.float())
    adapter.base.weight.copy_(adapter.base.weight.float() + delta)
    adapter.is_merged = True


@torch.no_grad()
def _unmerge(adapter: LoraLinear, weight: Tensor) -> None:
    adapter.base.weight.copy_(weight)
    adapter.is_merged = False


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
