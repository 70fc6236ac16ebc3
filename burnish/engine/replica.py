"""An engine in a worker: a model that was sent here without its weights, filled and kept up to date by updates.

What goes over at first is the model as an object with each tensor replaced by its name (ties stay ties); its weights
and buffers then come as an update, as all later ones do. Covered: any model that pickles, adapters included.
"""

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import EngineError
from burnish.core.types import Json
from burnish.engine.local import LocalEngine, open_engine
from burnish.engine.types import Finished, Request
from burnish.models.parameters import named_tensors
from burnish.runtime.transport import Carrier, Receiver, Update


def without_weights(model: PreTrainedModel) -> bytes:
    """The model as bytes, with names where its tensors are."""
    stream = io.BytesIO()
    _Emptying(stream, {id(tensor): name for name, tensor in named_tensors(model).items()}).dump(model)
    return stream.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """What a worker opens."""

    model: bytes
    chat: Chat
    max_rows: int
    options: Mapping[str, Json]
    num_threads: int


class Replica:
    """See the module's docstring; lives in a worker and does one thing at a time."""

    def __init__(self, config: ReplicaConfig) -> None:
        self._config = config
        self._model: PreTrainedModel = _Filling(io.BytesIO(config.model)).load()
        self._receiver = Receiver(named_tensors(self._model))
        self._engine: LocalEngine | None = None
        self._version, self._fingerprint = -1, ""

    def load(self, update: Update, carrier: Carrier) -> str:
        """Take an update over, unless its outcome is here already; returns the fingerprint of what is here now."""
        if self._fingerprint != update.fingerprint:
            self._fingerprint = ""
            self._fingerprint = self._receiver.take(update, carrier)
        self._version = update.version
        return self._fingerprint

    def sample(self, requests: Sequence[Request], fingerprint: str) -> list[Finished]:
        """Sample from the weights of that fingerprint, and from no others."""
        if fingerprint != self._fingerprint:
            raise EngineError(
                f"this replica has weights {self._fingerprint or 'of a broken update'}, samples are wanted from "
                f"{fingerprint}"
            )
        return list(self._opened().sample(requests))

    def _opened(self) -> LocalEngine:
        if self._engine is None:  # opened when there are weights: a native step packs them
            config = self._config
            self._engine = open_engine(
                self._model, config.chat, max_rows=config.max_rows, version=lambda: self._version,
                options=config.options,
            )  # fmt: skip
        return self._engine


@contextmanager
def open_replica(config: ReplicaConfig) -> Iterator[Replica]:
    """The state of a worker that samples."""
    torch.set_num_threads(config.num_threads)
    yield Replica(config)


class _Emptying(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, names: Mapping[int, str]) -> None:
        super().__init__(stream)
        self._names = names

    def persistent_id(self, obj: object) -> object:
        """What stands for a tensor: all about it but its values."""
        if not isinstance(obj, Tensor) or id(obj) not in self._names:
            return None
        return self._names[id(obj)], tuple(obj.shape), obj.dtype, isinstance(obj, nn.Parameter)


class _Filling(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self._tensors: dict[str, Tensor] = {}

    def persistent_load(self, pid: tuple[str, tuple[int, ...], torch.dtype, bool]) -> Tensor:
        """A tensor of zeros for each name, the same one each time."""
        name, shape, dtype, is_parameter = pid
        if name not in self._tensors:
            zeros = torch.zeros(shape, dtype=dtype)
            self._tensors[name] = nn.Parameter(zeros, requires_grad=False) if is_parameter else zeros
        return self._tensors[name]
