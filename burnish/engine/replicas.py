"""Engine `local` in several workers, each with a copy of the model that follows the learner's.

Before samples are drawn, the learner's weights are compared by checksum with those that were sent last, and what has
changed goes to every replica (`burnish.runtime.transport`); no sample comes from other weights than those asked for. A
replica that dies is replaced, has all weights from the shelf, and draws its requests again: seeds belong to requests,
so it draws the same.

Requests are dealt in shares of at most `max_rows` samples, at least one share a replica. Which share a request is in
depends on the requests alone, so that equal requests give equal samples whichever replica draws them.

Requests that are submitted are dealt at the next step, all that wait; weights that have moved go over before that,
when the shares under way have ended.

This stands beside `weight_sync`, which writes files for servers of others. Covered: `LiveEngine` but for `Sampled`
events. Not covered: requests that join a share under way, updates into samples under way, stopping a sample that
nobody wants any more (its share ends with it, no event tells of it), adapters by name.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import InvariantError
from burnish.core.recipe import EngineConfig, RuntimeConfig
from burnish.core.types import Json
from burnish.engine.replica import Replica, ReplicaConfig, open_replica, without_weights
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
        num_replicas: int, needs: Needs | None = None, tell: Callable[[str], object] = lambda message: None,
    ) -> None:  # fmt: skip
        self._carrier, self._publisher, self._num_replicas = carrier, publisher, num_replicas
        self._max_rows = config.max_rows
        self._shelf = Shelf()
        self._fingerprint = ""
        self._outdated: list[object] = []
        self._numbers = itertools.count()
        self._waiting: dict[int, Request] = {}
        self._under_way: dict[Future[list[Finished]], list[int]] = {}
        self._wanted: set[int] = set()
        if (first := publisher.publish()) is not None:
            self._keep(first)
        needs = needs or Needs(num_cpus=config.num_threads)
        start = runtime.crew("engine", lambda number: partial(open_replica, config), num_replicas, needs)
        self._pool = Pool(start, num_replicas, prepare=self._fill, tell=tell)

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
        self._bring()
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
        return len(self._waiting)

    def submit(self, request: Request) -> int:
        """See `LiveEngine`."""
        number = next(self._numbers)
        self._waiting[number] = request
        self._wanted.add(number)
        return number

    def cancel(self, number: int) -> None:
        """See `LiveEngine`."""
        self._waiting.pop(number, None)
        self._wanted.discard(number)

    def step(self) -> list[Event]:
        """See `LiveEngine`; waits until a share has ended."""
        self._start_waiting()
        done, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        events: list[Event] = []
        for future in done:
            numbers = self._under_way.pop(future)
            events += [
                finished._replace(request=numbers[finished.request])
                for finished in future.result()
                if numbers[finished.request] in self._wanted
            ]
            self._wanted.difference_update(numbers)
        return events

    def close(self) -> None:
        """End the replicas and let go of the weights; safe to call twice."""
        self._pool.stop()
        self._drop_outdated()
        self._shelf.clear(self._carrier)

    def _start_waiting(self) -> None:
        if not self._waiting:
            return
        self._bring()
        numbers = list(self._waiting)
        for share in _dealt(list(self._waiting.values()), self._max_rows, self._num_replicas):
            self._under_way[self._submit(share)] = [numbers[place] for place in share.places]
        self._waiting.clear()

    def _submit(self, share: _Share) -> "Future[list[Finished]]":
        return self._pool.submit(partial(Replica.sample, requests=share.requests, fingerprint=self._fingerprint))

    def _bring(self) -> None:
        """Send what has changed to all replicas, once what was submitted before is drawn from the weights of then.

        Until that is done, a replica that is replaced has those weights from the shelf.
        """
        update = self._publisher.publish()
        if update is None:
            return
        wait(self._under_way)
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
