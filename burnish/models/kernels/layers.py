"""Norms and gated layers of a transformer by the compiled functions; they keep less for the backward pass, too.

`use_kernels` puts them where a model's own layer computes the same, which is tried out on random numbers.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from burnish.models.kernels.rows import rows_for

_TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
_GATED = ("gate_proj", "up_proj", "down_proj")


class RowNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) times a weight (RMSNorm, https://arxiv.org/abs/1910.07467, eq. 4)."""

    def __init__(self, weight: nn.Parameter, eps: float) -> None:
        super().__init__()
        self.weight = weight
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        if rows_for(x, self.weight) is None:
            normed = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
            return self.weight * normed.to(x.dtype)
        return _Norm.apply(x, self.weight, self.eps)  # type: ignore[no-any-return]  # untyped


class GatedLayer(nn.Module):
    """down(silu(gate(x)) up(x)) (SwiGLU, https://arxiv.org/abs/2002.05202, eq. 6)."""

    def __init__(self, gate: nn.Linear, up: nn.Linear, down: nn.Linear) -> None:
        super().__init__()
        self.gate_proj: nn.Module = gate  # an adapter may take its place
        self.up_proj: nn.Module = up
        self.down_proj: nn.Module = down

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        gate, up = self.gate_proj(x), self.up_proj(x)
        if rows_for(gate, up) is None:
            return self.down_proj(nn.functional.silu(gate) * up)
        return self.down_proj(_Gated.apply(gate, up))


def use_kernels(model: nn.Module) -> None:
    """Replace the layers that compute what ours do, under their own names and with their own weights."""
    for name, own in list(model.named_modules()):
        ours = _norm_like(own) or _gated_like(own)
        if ours is not None:
            parent, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent), attribute, ours)


def _norm_like(own: nn.Module) -> nn.Module | None:
    """Compared in float32, at inputs whose mean is not 0, since norms that subtract it are near in bfloat16."""
    eps = getattr(own, "variance_epsilon", getattr(own, "eps", None))
    parameters = dict(own.named_parameters())
    weight = parameters.get("weight")
    if not isinstance(eps, float) or len(parameters) != 1 or weight is None or weight.ndim != 1:
        return None
    exact = copy.deepcopy(own).float()
    ours = RowNorm(nn.Parameter(exact.get_parameter("weight").detach()), eps)
    return RowNorm(weight, eps) if _is_here(weight) and _alike(exact, ours, len(weight), torch.float32) else None


def _gated_like(own: nn.Module) -> nn.Module | None:
    children = dict(own.named_children())
    linears = [child for name in _GATED if type(child := children.get(name)) is nn.Linear]
    activation: Any = getattr(own, "act_fn", None)
    if len(linears) < len(_GATED) or activation is None or not _is_silu(activation):
        return None
    ours, first = GatedLayer(*linears), linears[0].weight
    is_whole = dict(own.named_parameters()).keys() == dict(ours.named_parameters()).keys()
    return ours if is_whole and _is_here(first) and _alike(own, ours, first.shape[1], first.dtype) else None


def _is_here(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype in _TOLERANCES


@torch.no_grad()
def _is_silu(activation: Callable[[Tensor], Tensor]) -> bool:
    x = torch.linspace(-20, 20, 101)
    return torch.allclose(activation(x), nn.functional.silu(x), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def _alike(own: nn.Module, ours: nn.Module, width: int, dtype: torch.dtype) -> bool:
    """Row by row, at usual numbers and at some that a clamp would show."""
    generator = torch.Generator().manual_seed(width)
    x_N_D = (torch.randn(1, 8, width, generator=generator) + 1) * torch.tensor([1.0] * 4 + [100.0] * 4)[:, None]
    theirs, found = own(x_N_D.to(dtype)), ours(x_N_D.to(dtype))
    if theirs.shape != found.shape:
        return False
    scale = theirs.abs().amax(-1, keepdim=True).clamp_min(1e-6)
    return bool(((theirs - found).abs() <= _TOLERANCES[dtype] * scale).all())


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_D: Tensor, eps: float) -> Tensor:
        rows = rows_for(x)
        assert rows is not None
        x_N_D = x.reshape(-1, x.shape[-1]).contiguous()
        y_N_D, inverse_N = rows.norm(x_N_D, weight_D, eps)
        ctx.save_for_backward(x_N_D, weight_D, inverse_N)
        return y_N_D.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator names ctx otherwise
        (dy,) = grads
        x_N_D, weight_D, inverse_N = ctx.saved_tensors
        rows = rows_for(x_N_D)
        assert rows is not None
        dy_N_D = dy.reshape(x_N_D.shape).contiguous()
        weight_trains = ctx.needs_input_grad[1]
        dx_N_D, dweight_D = rows.norm_back(dy_N_D, x_N_D, weight_D, inverse_N, weight_trains=weight_trains)
        return dx_N_D.view(dy.shape), dweight_D, None


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        rows = rows_for(gate)
        assert rows is not None
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        return rows.gated(gate, up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator names ctx otherwise
        gate, up = ctx.saved_tensors
        rows = rows_for(gate)
        assert rows is not None
        return rows.gated_back(grads[0].contiguous(), gate, up)
