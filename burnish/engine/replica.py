"""An engine in a worker: a model that was sent here without its weights, filled and kept up to date by updates.

What goes over at first is the model as an object with each tensor replaced by its name (ties stay ties); its weights
and buffers then come as an update, as all later ones do. Covered: any model that pickles, adapters included.

In live use a replica goes on by turns: it does what it is ordered, between two engine steps, and then steps for a
while. What it draws follows from the orders and from the steps between which it got them, so whoever keeps both can
have it drawn again.
"""

import io
import pickle
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import EngineError
from burnish.core.types import Json
from burnish.engine.local import LocalEngine, open_engine
from burnish.engine.types import Failed, Finished, Request
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


class Orders(NamedTuple):
    """What a replica does before it steps, in this order; requests have the numbers of who orders."""

    updates: tuple[Update, ...] = ()
    cancelled: tuple[int, ...] = ()
    submitted: tuple[tuple[int, Request], ...] = ()


class Turned(NamedTuple):
    """What came of a turn. `life` is another if the replica that was meant has died; then nothing was done.

    `tick` is the engine step after which the orders were done, `last` that of the last sample that finished.
    """

    life: str
    version: int
    fingerprint: str
    tick: int
    last: int = 0
    finished: tuple[Finished, ...] = ()
    kv_used: float = 0.0


class Replica:
    """See the module's docstring; lives in a worker and does one thing at a time."""

    def __init__(self, config: ReplicaConfig) -> None:
        self._config = config
        self._model: PreTrainedModel = _Filling(io.BytesIO(config.model)).load()
        self._receiver = Receiver(named_tensors(self._model))
        self._engine: LocalEngine | None = None
        self._version, self._fingerprint = -1, ""
        self._life, self._tick = uuid.uuid4().hex, 0
        self._number_of: dict[int, int] = {}
        """By the engine's number of a request that is under way: that of who ordered it."""

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

    def turn(
        self, life: str, orders: Orders, carrier: Carrier, *, most_s: float = 0.0, num_steps: int | None = None
    ) -> Turned:
        """Do what is ordered and go on, for so long or for so many steps, while there is anything to sample."""
        if life != self._life:
            return Turned(self._life, self._version, self._fingerprint, self._tick)
        tick = self._tick
        self._obey(orders, carrier)
        finished: list[Finished] = []
        last, until_s = tick, time.monotonic() + most_s
        while (self._number_of or num_steps) and self._goes_on(tick, until_s, num_steps):
            if ended := self._step():
                finished += ended
                last = self._tick
        return Turned(self._life, self._version, self._fingerprint, tick, last, tuple(finished), self._opened().kv_used)

    def _goes_on(self, tick: int, until_s: float, num_steps: int | None) -> bool:
        return time.monotonic() < until_s if num_steps is None else self._tick - tick < num_steps

    def begin_anew(self) -> str:
        """Be as a replica that has just been opened, but for its weights; returns its life."""
        engine = self._opened()
        for number in self._number_of:
            engine.cancel(number)
        self._number_of.clear()
        for _ in engine.sample([]):
            raise AssertionError("nothing was asked for")
        self._life, self._tick = uuid.uuid4().hex, 0
        return self._life

    def _obey(self, orders: Orders, carrier: Carrier) -> None:
        for update in orders.updates:
            self.load(update, carrier)
        engine = self._opened()
        for number, ordered in list(self._number_of.items()):
            if ordered in orders.cancelled:
                engine.cancel(number)
                del self._number_of[number]
        for ordered, request in orders.submitted:
            self._number_of[engine.submit(request)] = ordered

    def _step(self) -> list[Finished]:
        """One engine step; requests are of one sample each."""
        self._tick += 1
        finished: list[Finished] = []
        for event in self._opened().step():
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Finished):
                finished.append(event._replace(request=self._number_of.pop(event.request)))
        return finished

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
