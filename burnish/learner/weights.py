"""The weights that train: float32 masters, their optimiser, their running average, checkpoints of all three.

A parameter in float32 is its own master, so nothing is copied; one in another precision gets a master, and takes
over the master's value after each step. Gradients are float32 sums; there is none where none came.

The running average (Polyak and Juditsky 1992, https://doi.org/10.1137/0330046, as an exponential mean) is
average <- d average + (1 - d) weights after each step, from the weights that the stage began with.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from burnish.core.errors import InvariantError, RunFolderError
from burnish.learner.optimiser import Optimiser, OptimiserConfig
from burnish.learner.ranks import Alone, Ranks, fill, whole
from burnish.models.kernels.rows import add_into

Snapshot = Mapping[str, Tensor]

_MASTERS, _AVERAGE = "masters.safetensors", "average.safetensors"


class Weights:
    """Named parameters of a model and everything that moves them; `version` counts the moves."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        matrices: frozenset[str] = frozenset(),
        ranks: Ranks | None = None,
    ) -> None:
        self.version = 0
        self._parameters = dict(parameters)
        self._matrices = matrices
        self._ranks = ranks or Alone()
        self.masters = {name: _master(parameter) for name, parameter in parameters.items()}
        self.reset_optimiser(OptimiserConfig())

    def reset_optimiser(self, config: OptimiserConfig) -> None:
        """Start a new stage: fresh moments, no gradients, the average at the weights."""
        self._config = config
        self._optimiser = Optimiser(config, self.masters, self._matrices)
        self.average = self.snapshot() if config.ema_decay else None
        self._drop_gradients()

    def take_gradients(self) -> None:
        """Add the gradients of parameters to those of their masters, after each backward pass."""
        for name, parameter in self._parameters.items():
            master = self.masters[name]
            if master is parameter or parameter.grad is None:
                continue
            if master.grad is None:
                master.grad = parameter.grad.float()
            else:
                add_into(master.grad, parameter.grad)
            parameter.grad = None

    @torch.no_grad()
    def step(self, learning_rate: float) -> float:
        """Clip, move, raise the version; return the gradient norm before clipping."""
        norm = whole(nn.utils.clip_grad_norm_(self.masters.values(), self._config.max_grad_norm))
        if not torch.isfinite(norm):
            raise InvariantError("the gradient is not finite; the update was not made; look at the last batch")
        self._optimiser.step(learning_rate)
        self._drop_gradients()
        self._publish(self.masters)
        if self.average is not None:
            for name, average in self.average.items():
                average.lerp_(self.masters[name], 1 - self._config.ema_decay)
        self.version += 1
        return float(norm)

    def follow(self, version: int) -> None:
        """Take over masters that were written from elsewhere, as this version."""
        self._publish(self.masters)
        self.version = version

    def snapshot(self) -> Snapshot:
        """A copy of the masters as they are now, for example the reference of a KL penalty."""
        return {name: master.detach().clone() for name, master in self.masters.items()}

    @contextmanager
    def as_snapshot(self, snapshot: Snapshot) -> Iterator[None]:
        """Compute with other weights within the block; they do not train there."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._publish(snapshot)
        try:
            yield
        finally:
            self._publish(own)

    @torch.no_grad()
    def adopt(self, snapshot: Snapshot) -> None:
        """Go on from other weights of the same names, as exact as they are; what they lack stays."""
        for name, value in snapshot.items():
            fill(self.masters[name], value)
        self._publish(self.masters)

    def adopt_average(self) -> None:
        """Go on with the running average as the weights, if one is kept; raises the version."""
        if self.average is None:
            return
        for name, master in self.masters.items():
            fill(master, self.average[name])
        self._publish(self.masters)
        self.version += 1

    def save(self, folder: Path, *, with_optimiser: bool) -> None:
        """Write masters (and what a stage goes on with) into an existing folder; all ranks must call it."""
        masters = {name: whole(master.detach()) for name, master in self.masters.items()}
        average = {name: whole(value) for name, value in self.average.items()} if self.average else {}
        optimiser = self._optimiser.state() if with_optimiser else None
        if not self._ranks.writes:
            return
        try:
            save_file(masters, folder / _MASTERS)
            torch.save({"version": self.version}, folder / "policy.pt")
            if with_optimiser:
                torch.save(optimiser, folder / "optimiser.pt")
            if with_optimiser and average:
                save_file(average, folder / _AVERAGE)
        except (OSError, RuntimeError, SafetensorError) as error:  # how the two libraries tell of a full disk
            raise RunFolderError(
                f"cannot write a checkpoint to {str(folder.parent)!r}: {error}; free disk space, then go on by --resume"
            ) from error

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """Read what `save` wrote; the optimiser and the average too where they are there."""
        try:
            self._load(folder)
        except (OSError, RuntimeError, KeyError, EOFError, UnpicklingError, SafetensorError) as error:
            raise RunFolderError(
                f"cannot read the checkpoint {str(folder)!r}: {error}; if it is damaged, start again under another name"
            ) from error

    def _load(self, folder: Path) -> None:
        saved = load_file(folder / _MASTERS)
        assert saved.keys() == self.masters.keys(), "the checkpoint is of other parameters"
        for name, master in self.masters.items():
            fill(master, saved[name])
        self.version = torch.load(folder / "policy.pt", weights_only=True)["version"]
        if (folder / "optimiser.pt").exists():
            self._optimiser.load(torch.load(folder / "optimiser.pt", weights_only=True))
        if self.average is not None:
            kept = load_file(folder / _AVERAGE) if (folder / _AVERAGE).exists() else saved
            for name, average in self.average.items():
                fill(average, kept[name])
        self._drop_gradients()
        self._publish(self.masters)

    def _drop_gradients(self) -> None:
        for master in self.masters.values():
            master.grad = None

    @torch.no_grad()
    def _publish(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not weights[name]:
                parameter.copy_(weights[name])


def _master(parameter: nn.Parameter) -> nn.Parameter:
    return parameter if parameter.dtype == torch.float32 else nn.Parameter(parameter.detach().float().clone())
