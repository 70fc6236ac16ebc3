"""Replicas in live use: requests join what is under way, and new weights reach samples that go on.

Each replica has a turn at a time (`Replica.turn`). When one comes back, the next begins at once with what was ordered
meanwhile, in the thread that brought it, so that replicas go on while who orders is busy with something else.

A replica that dies is replaced; what was under way there is begun anew. `Applied` and `Lost` tell in which order
everything was done: a replica's samples follow from that (`Repeated`).
Requests are of one sample each and go to the replica that has the fewest. Not covered: moving a request to another one.
"""

import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from burnish.engine.replica import Orders, Replica, Turned
from burnish.engine.types import Finished, Request
from burnish.runtime.transport import Carrier, Update
from burnish.runtime.workers import Pool

TURN_S = 0.1
_WAIT_S = 0.1
_NOTHING = Orders()


class Applied(NamedTuple):
    """What a replica was ordered after its engine step `tick`, and what it finished until its step `last`.

    `version` is that of the weights that it then had; what was cancelled before it was known to be finished is not in
    `finished`.
    """

    replica: int
    tick: int
    last: int
    version: int
    cancelled: tuple[int, ...]
    submitted: tuple[int, ...]
    finished: tuple[Finished, ...]


class Lost(NamedTuple):
    """A replica died; its successor begins at step 0, with weights of this version."""

    replica: int
    version: int


Entry = Applied | Lost


@dataclass(eq=False, slots=True, kw_only=True)
class _Seat:
    number: int
    life: str = ""
    turn: "Future[Turned] | None" = None
    ordered: Orders = _NOTHING
    """In the turn that is under way."""
    next: Orders = _NOTHING
    under_way: dict[int, Request] = field(default_factory=dict[int, Request])
    kv_used: float = 0.0


class Turns:
    """See the module's docstring. `load`, `submit`, `cancel` and `wait` are for one thread."""

    def __init__(
        self, pool: Pool[Replica], carrier: Carrier, num_replicas: int, max_rows: int, turn_s: float = TURN_S
    ) -> None:
        self._pool, self._carrier, self._max_rows, self._turn_s = pool, carrier, max_rows, turn_s
        self._seats = [_Seat(number=number) for number in range(num_replicas)]
        self._seat_of: dict[int, _Seat] = {}
        self._lock = threading.RLock()
        self._came: queue.SimpleQueue[Entry | BaseException] = queue.SimpleQueue()
        self._num_submitted = 0

    @property
    def num_waiting(self) -> int:
        """How many requests have no place in their replica yet."""
        return sum(max(0, len(seat.under_way) - self._max_rows) for seat in self._seats)

    @property
    def kv_used(self) -> float:
        """Of the replica that has the least memory for keys and values left."""
        return max(seat.kv_used for seat in self._seats)

    @property
    def num_behind(self) -> int:
        """How many replicas have not loaded what `load` gave last."""
        return sum(bool(seat.ordered.updates or seat.next.updates) for seat in self._seats)

    @property
    def num_under_way(self) -> int:
        """How many requests were submitted and are neither finished nor cancelled."""
        return len(self._seat_of)

    @property
    def is_quiet(self) -> bool:
        """Whether no replica has anything to do, and all that was done can be heard."""
        with self._lock:  # else a turn may have come back whose entry has not
            return all(seat.turn is None for seat in self._seats)

    def submit(self, request: Request) -> int:
        """Give a request to a replica; returns its number."""
        assert request.num_samples == 1, "a request of several samples cannot be dealt out"
        with self._lock:
            self._num_submitted += 1
            seat = min(self._seats, key=lambda each: (len(each.under_way), each.number))
            self._seat_of[self._num_submitted] = seat
            seat.under_way[self._num_submitted] = request
            seat.next = seat.next._replace(submitted=(*seat.next.submitted, (self._num_submitted, request)))
            self._go_on(seat)
        return self._num_submitted

    def cancel(self, number: int) -> None:
        """Stop a request; nothing is heard of it any more."""
        with self._lock:
            if (seat := self._seat_of.pop(number, None)) is None:
                return
            seat.under_way.pop(number, None)  # it may have finished, unheard of so far
            kept = tuple(pair for pair in seat.next.submitted if pair[0] != number)
            if len(kept) < len(seat.next.submitted):  # it has not gone to the replica
                seat.next = seat.next._replace(submitted=kept)
            else:
                seat.next = seat.next._replace(cancelled=(*seat.next.cancelled, number))
            self._go_on(seat)

    def load(self, update: Update) -> None:
        """Have all replicas take over new weights, between two steps."""
        with self._lock:
            for seat in self._seats:
                seat.next = seat.next._replace(updates=(*seat.next.updates, update))
                self._go_on(seat)

    def wait(self, wait_s: float = _WAIT_S) -> list[Entry]:
        """What was done since the last call, in order; waits so long for a first one. Raises what broke a replica."""
        entries: list[Entry] = []
        while True:
            try:
                entry = self._came.get(timeout=wait_s) if wait_s and not entries else self._came.get_nowait()
            except queue.Empty:
                return entries
            if isinstance(entry, BaseException):
                raise entry
            entries.append(self._heard(entry))

    def _heard(self, entry: Entry) -> Entry:
        """The entry, less what was cancelled since."""
        if isinstance(entry, Lost):
            return entry
        finished = tuple(each for each in entry.finished if self._seat_of.pop(each.request, None) is not None)
        return entry._replace(finished=finished)

    # In the threads that bring turns, too

    def _go_on(self, seat: _Seat) -> None:
        """Begin a turn if there is none and there is anything to do."""
        if seat.turn is not None or not (seat.under_way or any(seat.next)):
            return
        seat.ordered, seat.next = seat.next, _NOTHING
        work = partial(Replica.turn, life=seat.life, orders=seat.ordered, carrier=self._carrier, most_s=self._turn_s)
        seat.turn = self._pool.submit_to(seat.number, work)
        seat.turn.add_done_callback(partial(self._come_back, seat))

    def _come_back(self, seat: _Seat, turn: "Future[Turned]") -> None:
        with self._lock:
            seat.turn = None
            error = RuntimeError("the pool was stopped") if turn.cancelled() else turn.exception()
            if error is not None:
                self._came.put(error)
                return
            if turn.result().life == seat.life:
                self._note(seat, turn.result())
            else:
                self._succeed(seat, turn.result())
            self._go_on(seat)

    def _note(self, seat: _Seat, turned: Turned) -> None:
        ordered, seat.ordered, seat.kv_used = seat.ordered, _NOTHING, turned.kv_used
        for finished in turned.finished:
            seat.under_way.pop(finished.request, None)
        submitted = tuple(number for number, _ in ordered.submitted)
        if any(ordered) or turned.finished:
            self._came.put(
                Applied(
                    seat.number, turned.tick, turned.last, turned.version, ordered.cancelled, submitted, turned.finished
                )
            )

    def _succeed(self, seat: _Seat, turned: Turned) -> None:
        """Another replica sits here: it has the newest weights that were there when it came, and nothing else."""
        if seat.life:
            self._came.put(Lost(seat.number, turned.version))
        seat.life = turned.life
        updates = (*seat.ordered.updates, *seat.next.updates)
        known = [place for place, update in enumerate(updates) if update.fingerprint == turned.fingerprint]
        updates = updates[known[-1] + 1 :] if known else updates
        seat.ordered, seat.next = _NOTHING, Orders(updates=updates, submitted=tuple(seat.under_way.items()))


class Repeated:
    """Has replicas do again what a log tells, one entry after the other; all must have the same weights at first."""

    def __init__(self, pool: Pool[Replica], carrier: Carrier, num_replicas: int, version: int) -> None:
        self._pool, self._carrier = pool, carrier
        self._lives = [""] * num_replicas
        self._ticks = [0] * num_replicas
        self._versions = [version] * num_replicas
        self.begin_all_anew()

    @property
    def oldest_version(self) -> int:
        """Of the weights of the replica that is furthest behind."""
        return min(self._versions)

    def begin_all_anew(self) -> None:
        """Let go of all that is under way."""
        for replica in range(len(self._lives)):
            self.begin_anew(replica)

    def begin_anew(self, replica: int) -> None:
        """Let go of all that is under way there, as a death does."""
        self._lives[replica] = self._pool.submit_to(replica, Replica.begin_anew).result()
        self._ticks[replica] = 0

    def apply(self, entry: Applied, requests: Mapping[int, Request], updates: Mapping[int, Update]) -> list[Finished]:
        """Do again what an entry tells; `updates` are by the version that they lead to."""
        early = self._turn(entry.replica, _NOTHING, entry.tick - self._ticks[entry.replica])
        orders = Orders(
            updates=self._due(entry.replica, updates, entry.version),
            cancelled=entry.cancelled,
            submitted=tuple((number, requests[number]) for number in entry.submitted),
        )
        return early + self._turn(entry.replica, orders, entry.last - entry.tick)

    def catch_up(self, updates: Mapping[int, Update]) -> None:
        """Have all replicas load what they have not."""
        for replica in range(len(self._lives)):
            self._turn(replica, Orders(updates=self._due(replica, updates, max(updates, default=-1))), 0)

    def _due(self, replica: int, updates: Mapping[int, Update], version: int) -> tuple[Update, ...]:
        """The updates that lead a replica to a version."""
        last = self._versions[replica]
        self._versions[replica] = max(last, version)
        return tuple(update for made, update in sorted(updates.items()) if last < made <= version)

    def _turn(self, replica: int, orders: Orders, num_steps: int) -> list[Finished]:
        work = partial(
            Replica.turn, life=self._lives[replica], orders=orders, carrier=self._carrier, num_steps=num_steps
        )
        turned = self._pool.submit_to(replica, work).result()
        self._ticks[replica] = turned.tick + num_steps
        return list(turned.finished)
