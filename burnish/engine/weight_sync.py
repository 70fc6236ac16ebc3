"""How a server that samples gets the weights that the learner trains.

The engine holds the live model. Before it samples it looks whether the weights have moved since they were last sent,
and if so: pause, load, reset the prefix cache, stamp, resume, read the stamp back, and compare the likeliest tokens
of one prompt with the live model's. The weights travel as files, through a folder that server and trainer share:
all of them merged, or only the adapter.

Decisions: a stamp (`label`) names the policy's version and is never used twice, so that a server that kept the one
of an earlier run is found out. Whether weights have moved is told by the policy's version and by torch's own count of
in-place changes, since a version comes back when a checkpoint is loaded. Each verb is asked once, in bounded time,
and its error names it. If one fails the server stays paused: nobody samples from half of new weights, and the next
update begins by pausing anyway. The folder of a trainer that was killed is removed by the next one (`core.scratch`).

Covered: full weights and LoRA adapters in peft's format. Not covered: sending only what changed, sharded learners.
"""

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError, EngineError
from burnish.core.scratch import Scratch
from burnish.engine.served import Stamp
from burnish.models.lora import LoraLinear, merged_state_dict
from burnish.models.parameters import num_changes
from burnish.models.peft import save_adapter

Files = Literal["merged", "adapter", "none"]
"""What an update writes: all weights merged, the adapter, or nothing, where they go another way."""


class Delivery(NamedTuple):
    """Weights in a folder, and the stamp that goes with them."""

    folder: Path
    label: str


class Receiver(Protocol):
    """The verbs of a server that takes new weights over. Each blocks; each raises `EngineError` if it is refused."""

    def pause(self) -> None:
        """Sample nothing from now on; what is under way waits."""
        ...

    def load(self, delivery: Delivery) -> None:
        """Take the weights over."""
        ...

    def reset_cache(self) -> None:
        """Forget all keys and values of the old weights."""
        ...

    def stamp(self, label: str) -> None:
        """Keep the name of the weights."""
        ...

    def resume(self) -> None:
        """Sample again."""
        ...

    def read_stamp(self) -> str | None:
        """The name of the weights as the server has it; None if it has no means to tell."""
        ...


class _Mark(NamedTuple):
    """Equal marks: equal weights."""

    version: int
    num_changes: int


class WeightSync:
    """Keeps a server at the weights of a live model."""

    def __init__(
        self, receiver: Receiver, model: PreTrainedModel, version: Callable[[], int], *, folder: str,
        files: Files, prove: Callable[[str], None],
    ) -> None:  # fmt: skip
        if files == "adapter" and not any(isinstance(module, LoraLinear) for module in model.modules()):
            raise ConfigError('send = "adapter" needs a model with [model.lora]; or say send = "weights"')
        self._receiver, self._model, self._version = receiver, model, version
        self._files, self._prove = files, prove
        self._scratch = Scratch("burnish-weights-", _existing(folder))
        self._run, self._numbers = os.urandom(4).hex(), itertools.count()
        self._sent: _Mark | None = None
        self._stamp = Stamp(-1, "")

    @property
    def version(self) -> int:
        """The version of the weights that the next sample comes from: they are sent before it."""
        return self._version()

    def bring(self) -> Stamp:
        """Send the weights if they have moved."""
        mark = _Mark(self._version(), num_changes(self._model))
        if mark == self._sent:
            return self._stamp
        label = f"v{mark.version}-{self._run}-{next(self._numbers)}"
        folder = self._scratch.path / label
        self._write(folder)
        self._sent = None
        self._hand_over(Delivery(folder, label))
        shutil.rmtree(folder)
        self._sent, self._stamp = mark, Stamp(mark.version, label)
        return self._stamp

    def close(self) -> None:
        """Remove the folder."""
        self._scratch.close()

    def _hand_over(self, delivery: Delivery) -> None:
        self._receiver.pause()
        self._receiver.load(delivery)
        self._receiver.reset_cache()
        self._receiver.stamp(delivery.label)
        self._receiver.resume()
        got = self._receiver.read_stamp()
        if got not in (None, delivery.label):
            raise EngineError(
                f"the server says that its weights are {got!r} after they were updated to {delivery.label!r}; "
                "does another trainer use it, or is it behind a balancer over several servers?"
            )
        self._prove(delivery.label)

    def _write(self, folder: Path) -> None:
        folder.mkdir()
        try:
            if self._files == "adapter":
                save_adapter(self._model, folder)
            elif self._files == "merged":
                _save_merged(self._model, folder)
        except (OSError, SafetensorError) as error:
            raise EngineError(
                f"cannot write weights to {str(folder)!r}: {error}; free the disk or set the engine's option folder"
            ) from error


def _save_merged(model: PreTrainedModel, folder: Path) -> None:
    weights = {name: value.to("cpu", model.dtype) for name, value in merged_state_dict(model).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder)


def _existing(folder: str) -> Path | None:
    if folder and not Path(folder).is_dir():
        raise ConfigError(f"engine option folder {folder!r} is no folder; make it, where the server can read it too")
    return Path(folder) if folder else None


class FixedWeights:
    """A server whose weights nobody here changes, for example an endpoint that is only evaluated."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version, self._first = version, version()

    @property
    def version(self) -> int:
        """The policy's version when the engine was opened."""
        return self._first

    def bring(self) -> Stamp:
        """`ConfigError` if the policy has moved on: this server cannot follow."""
        if self._version() != self._first:
            raise ConfigError(
                f"the policy is at version {self._version()}, but the endpoint still serves what it did at version "
                f'{self._first} and takes no weights; sample from engine.use = "local", "vllm" or "sglang"'
            )
        return Stamp(self._first, "")

    def close(self) -> None:
        """Nothing was opened."""
