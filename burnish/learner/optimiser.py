"""Optimisers by name, from libraries: AdamW, Muon, AdamW with 8-bit moments.

adamw       https://arxiv.org/abs/1711.05101, torch's fused one
muon        https://arxiv.org/abs/2502.16982 for the matrices of hidden layers; embeddings, heads, norms and biases
            go to AdamW, as its section 2 says. Updates are scaled to AdamW's size (its eq. 4), so that one learning
            rate serves both
adamw_8bit  https://arxiv.org/abs/2110.02861, from torchao (extra `optim8bit`): moments in blocks of 256 take 2 bytes
            a weight instead of 8. On processors its pieces are not compiled, which would take minutes

A kind is a function from config and masters to optimisers; add one here. State is a list, one entry an optimiser.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from burnish.core.errors import ConfigError
from burnish.learner.ranks import share_like, whole

Kind = Literal["adamw", "muon", "adamw_8bit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserConfig:
    """How weights move. `ema_decay` 0 keeps no average of them."""

    kind: Kind = "adamw"
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.95
    """Muon's."""
    max_grad_norm: float = 1.0
    ema_decay: float = 0.0


class Optimiser:
    """One or several of torch's optimisers that step as one."""

    def __init__(self, config: OptimiserConfig, masters: Mapping[str, nn.Parameter], matrices: frozenset[str]) -> None:
        self._parts = _KINDS[config.kind](config, masters, matrices)
        on_processor = all(master.device.type == "cpu" for master in masters.values())
        self._is_eager = config.kind == "adamw_8bit" and on_processor

    def step(self, learning_rate: float) -> None:
        """Move the masters by their gradients."""
        for part in self._parts:
            for group in part.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(learning_rate)
                else:
                    group["lr"] = learning_rate
            with torch.compiler.set_stance("force_eager") if self._is_eager else nullcontext():
                part.step()

    def state(self) -> list[dict[str, Any]]:
        """What a checkpoint keeps; where weights are held in shares, all ranks must ask."""
        return [_each_moment(part, part.state_dict(), lambda value, _: whole(value)) for part in self._parts]

    def load(self, state: list[dict[str, Any]]) -> None:
        """Take over what `state` gave."""
        for part, kept in zip(self._parts, state, strict=True):
            part.load_state_dict(_each_moment(part, kept, share_like))


def _each_moment(
    part: torch.optim.Optimizer, state: dict[str, Any], change: Callable[[Tensor, Tensor], Tensor]
) -> dict[str, Any]:
    """The state with each tensor changed, given the parameter that it belongs to."""
    parameters = [parameter for group in part.param_groups for parameter in group["params"]]
    return state | {
        "state": {
            index: {
                name: change(value, parameters[index]) if isinstance(value, Tensor) else value
                for name, value in moments.items()
            }
            for index, moments in state["state"].items()
        }
    }


def check(kind: Kind) -> None:
    """Raise `ConfigError` if what an optimiser needs is not installed."""
    if kind == "muon" and "Muon" not in dir(torch.optim):
        raise ConfigError(f"optimiser 'muon' needs torch 2.9 or newer, this is {torch.__version__}; choose 'adamw'")
    if kind == "adamw_8bit" and find_spec("torchao") is None:
        raise ConfigError("optimiser 'adamw_8bit' needs torchao; pip install 'burnish[optim8bit]', or choose 'adamw'")


def _adamw(
    config: OptimiserConfig, masters: Mapping[str, nn.Parameter], _: frozenset[str]
) -> list[torch.optim.Optimizer]:
    return [
        torch.optim.AdamW(
            list(masters.values()), lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon,
            weight_decay=config.weight_decay, fused=True,
        )
    ]  # fmt: skip


def _muon(
    config: OptimiserConfig, masters: Mapping[str, nn.Parameter], matrices: frozenset[str]
) -> list[torch.optim.Optimizer]:
    check("muon")
    hidden = [master for name, master in masters.items() if name in matrices]
    others = {name: master for name, master in masters.items() if name not in matrices}
    if any(isinstance(master, DTensor) for master in hidden):
        raise ConfigError("optimiser 'muon' needs whole matrices, and these lie in shares; choose 'adamw'")
    if not hidden:
        raise ConfigError("optimiser 'muon' moves matrices of hidden layers, and none trains; choose 'adamw'")
    muon = torch.optim.Muon(
        hidden, lr=0.0, momentum=config.momentum, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, *(_adamw(config, others, matrices) if others else [])]


def _adamw_8bit(
    config: OptimiserConfig, masters: Mapping[str, nn.Parameter], _: frozenset[str]
) -> list[torch.optim.Optimizer]:
    check("adamw_8bit")
    return [
        import_module("torchao.optim").AdamW8bit(
            list(masters.values()), lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon,
            weight_decay=config.weight_decay,
        )
    ]  # fmt: skip


_Make = Callable[[OptimiserConfig, Mapping[str, nn.Parameter], frozenset[str]], list[torch.optim.Optimizer]]
_KINDS: dict[Kind, _Make] = {"adamw": _adamw, "muon": _muon, "adamw_8bit": _adamw_8bit}
