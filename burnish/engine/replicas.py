"""Engine `local` in several workers, each with a copy of the model that follows the learner's.

Before samples are drawn, the learner's weights are compared by checksum with those that were sent last, and what has
changed goes to every replica (`burnish.runtime.transport`); no sample comes from other weights than those asked for. A
replica that dies is replaced, has all weights from the shelf, and draws its requests again: seeds belong to requests,
so it draws the same.

Requests are dealt in shares of at most `max_rows` samples, at least one share a replica. Which share a request is in
depends on the requests alone, so that equal requests give equal samples whichever replica draws them.

In live use requests join what is under way (`replica_turns`), and weights that have moved go over when `bring` is
called, into samples under way.

This stands beside `weight_sync`, which writes files for servers of others. Covered: `LiveEngine` but for `Sampled`
events, and for requests of several samples in live use. Not covered: adapters by name.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError, InvariantError
from burnish.core.recipe import EngineConfig, RuntimeConfig
from burnish.core.types import Json
from burnish.engine.replica import Replica, ReplicaConfig, open_replica, without_weights
from burnish.engine.replica_turns import TURN_S, Entry, Lost, Repeated, Turns
from burnish.engine.types import Event, Finished, Request
from burnish.models.parameters import named_tensors, num_changes
from burnish.runtime.opening import Opened
from burnish.runtime.shelf import Shelf
from burnish.runtime.transport import Carrier, Checksums, Update, send
from burnish.runtime.types import Needs, Runtime
from burnish.runtime.workers import Pool, Worker


class Publisher(Protocol):
    """Where new weights come from."""

    @property
    def version(self) -> int:
        """Of the weights that the next update leads to."""
        ...

    def publish(self) -> Update | None:
        """What has changed since the last call; None if nothing has."""
        ...


class LivePublisher:
    """Publishes the weights of a model in this process; they have moved if `version` has, or torch counts changes."""

    def __init__(self, model: PreTrainedModel, version: Callable[[], int], carrier: Carrier) -> None:
        self._model, self._version, self._carrier = model, version, carrier
        self._checksums = Checksums()
        self._known: Mapping[str, str] = {}
        self._sent: tuple[int, int] | None = None

    @property
    def version(self) -> int:
        """See `Publisher`."""
        return self._version()

    def publish(self) -> Update | None:
        """See `Publisher`."""
        mark = (self._version(), num_changes(self._model))
        if mark == self._sent:
            return None
        weights = named_tensors(self._model)
        checksums = self._checksums.of(weights)
        update = send(weights, checksums, self._carrier, version=self._version(), known=self._known)
        self._known, self._sent = checksums, mark
        return update


class _Share(NamedTuple):
    """Some of the requests, and where they stood among all."""

    places: tuple[int, ...]
    requests: tuple[Request, ...]


class ReplicaEngine:
    """See the module's docstring."""

    def __init__(
        self, runtime: Runtime, carrier: Carrier, publisher: Publisher, config: ReplicaConfig, *,
        num_replicas: int, needs: Needs | None = None, turn_s: float = TURN_S,
        tell: Callable[[str], object] = lambda message: None,
    ) -> None:  # fmt: skip
        self._carrier, self._publisher, self._num_replicas = carrier, publisher, num_replicas
        self._max_rows = config.max_rows
        self._shelf = Shelf()
        self._fingerprint = ""
        self._outdated: list[object] = []
        self._log: list[Entry] = []
        if (first := publisher.publish()) is not None:
            self._keep(first)
        needs = needs or Needs(num_cpus=config.num_threads)
        start = runtime.crew("engine", lambda number: partial(open_replica, config), num_replicas, needs)
        self._pool = Pool(start, num_replicas, prepare=self._fill, tell=tell)
        self._turns = Turns(self._pool, carrier, num_replicas, config.max_rows, turn_s)

    @property
    def version(self) -> int:
        """See `Engine`."""
        return self._publisher.version

    @property
    def num_lost(self) -> int:
        """How many replicas died so far."""
        return self._pool.num_lost

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """See `Engine`; samples come share by share."""
        self._end_turns()
        self._bring_all()
        futures = {self._submit(share): share for share in _dealt(requests, self._max_rows, self._num_replicas)}
        try:
            for future in as_completed(futures):
                for finished in future.result():
                    yield finished._replace(request=futures[future].places[finished.request])
        finally:
            for future in futures:
                future.cancel()

    @property
    def num_waiting(self) -> int:
        """See `LiveEngine`."""
        return self._turns.num_waiting

    @property
    def num_places(self) -> int:
        """How many samples all replicas draw at once."""
        return self._max_rows * self._num_replicas

    @property
    def kv_used(self) -> float:
        """The share of the memory for keys and values that samples take in the fullest replica."""
        return self._turns.kv_used

    @property
    def num_behind(self) -> int:
        """How many replicas have not loaded the newest weights that were brought."""
        return self._turns.num_behind

    def submit(self, request: Request) -> int:
        """See `LiveEngine`; a request is of one sample, and is drawn from the weights that were brought."""
        return self._turns.submit(request)

    def cancel(self, number: int) -> None:
        """See `LiveEngine`."""
        self._turns.cancel(number)

    def step(self) -> list[Event]:
        """See `LiveEngine`; waits a moment for a replica, and tells nothing where none had anything to tell."""
        entries = self._turns.wait()
        self._log += entries
        if not self.num_behind:
            self._drop_outdated()  # only now does no replica read them any more
        return [finished for entry in entries if not isinstance(entry, Lost) for finished in entry.finished]

    def take_log(self) -> list[Entry]:
        """What replicas did in live use since the last call, in the order in which `step` told of it."""
        log, self._log = self._log, []
        return log

    def bring(self) -> Update | None:
        """Send weights that have moved to all replicas, into what is under way."""
        if (update := self._publisher.publish()) is not None:
            self._keep(update)
            self._turns.load(update)
        return update

    def begin_anew(self) -> None:
        """Have all replicas be as when they were opened, but for their weights; nothing may be under way."""
        self._end_turns()
        self._pool.each(Replica.begin_anew)
        self._log.clear()

    def repeated(self) -> Repeated:
        """The replicas, to have them do again what a log tells."""
        self._end_turns()
        self._bring_all()
        return Repeated(self._pool, self._carrier, self._num_replicas, self.version)

    def published(self) -> Update | None:
        """What has moved since the last call, for `Repeated`; kept until `forget_published`."""
        if (update := self._publisher.publish()) is not None:
            self._keep(update)
        return update

    def forget_published(self) -> None:
        """No replica will be asked to load what was published before."""
        self._drop_outdated()

    def close(self) -> None:
        """End the replicas and let go of the weights; safe to call twice."""
        self._pool.stop()
        self._drop_outdated()
        self._shelf.clear(self._carrier)

    def _end_turns(self) -> None:
        """Wait until no replica does anything in live use, and forget what they did last: nobody waits for it."""
        if self._turns.num_under_way:
            raise ConfigError("the engine is in live use; finish or cancel what was submitted before `sample`")
        while not self._turns.is_quiet:
            self._turns.wait()
        self._turns.wait(0.0)  # what came after the last look

    def _submit(self, share: _Share) -> "Future[list[Finished]]":
        return self._pool.submit(partial(Replica.sample, requests=share.requests, fingerprint=self._fingerprint))

    def _bring_all(self) -> None:
        """Send what has changed to all replicas, and wait until they have it."""
        update = self._publisher.publish()
        if update is None:
            return
        self._keep(update)
        got = self._pool.each(partial(Replica.load, update=update, carrier=self._carrier))
        if any(fingerprint != update.fingerprint for fingerprint in got):
            raise InvariantError(f"replicas have weights {got} after an update to {update.fingerprint}")
        self._drop_outdated()  # only now does no replica read them any more

    def _keep(self, update: Update) -> None:
        self._outdated += self._shelf.add(update)
        self._fingerprint = update.fingerprint

    def _drop_outdated(self) -> None:
        for handle in self._outdated:
            self._carrier.drop(handle)
        self._outdated.clear()

    def _fill(self, worker: Worker[Replica]) -> None:
        worker.call(partial(Replica.load, update=self._shelf.whole(), carrier=self._carrier))


@contextmanager
def opened_replicas(
    where: Opened, runtime: RuntimeConfig, engine: EngineConfig, model: PreTrainedModel, chat: Chat,
    version: Callable[[], int],
) -> Iterator[ReplicaEngine]:  # fmt: skip
    """As many replicas of the live model as the recipe says, while the block lasts; lost ones are told on stderr."""
    config = replica_config(
        model, chat, max_rows=engine.max_rows, options=engine.options, num_threads=runtime.engine_threads
    )
    opened = ReplicaEngine(
        where.runtime, where.carrier, LivePublisher(model, version, where.carrier), config,
        num_replicas=runtime.engine_replicas, tell=lambda message: sys.stderr.write(f"{message}\n"),
    )  # fmt: skip
    try:
        yield opened
    finally:
        opened.close()


def replica_config(
    model: PreTrainedModel, chat: Chat, *, max_rows: int, options: Mapping[str, Json], num_threads: int = 1
) -> ReplicaConfig:
    """What replicas of a model open."""
    return ReplicaConfig(
        model=without_weights(model), chat=chat, max_rows=max_rows, options=dict(options), num_threads=num_threads
    )


def _dealt(requests: Sequence[Request], max_rows: int, num_replicas: int) -> list[_Share]:
    """Shares of at most `max_rows` samples (or one request), dealt round so that they are alike in size."""
    num_samples = sum(request.num_samples for request in requests)
    num_shares = min(len(requests), max(num_replicas, -(-num_samples // max_rows)))
    return [
        _Share(tuple(range(first, len(requests), num_shares)), tuple(requests[first::num_shares]))
        for first in range(num_shares)
    ]
