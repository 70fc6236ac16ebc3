"""Workers, and pools of them: each job's result comes exactly once, whichever worker dies meanwhile.

A worker is a process that opens a state once (a model, a sandbox) and then does work: functions of that state, one at
a time. Where it runs is decided by who starts it (`runtime.processes`, `runtime.ray`).

A pool has a thread for each seat. The thread owns the worker that sits there: it hands it jobs, hears of its death,
starts another, and gives the job that was lost back to the head of the queue. A job that has lost `most_losses`
workers is the likely cause and ends with `WorkerLost`; one whose function raises ends with what it raised.

Decisions: at most `most_waiting` jobs wait, beyond that `submit` waits (back-pressure). A result is given once; the
work itself may have been begun more often, so it must be safe to begin again. A worker that dies idle is noticed
within `_GLANCE_S`. A job that its worker does not end in its time is not begun again. When a seat cannot be filled any
more, the pool is broken (`PoolBroken`), and whoever waits or comes later hears why.

Not covered: a limit on how often workers may die in all.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from burnish.core.errors import BurnishError

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
R = TypeVar("R")

Opening = Callable[[], AbstractContextManager[S]]
"""Opens the state of a worker, in the worker; it must be picklable, for example `partial(function, ...)`."""

_GLANCE_S = 0.1


class WorkerLost(BurnishError):
    """A worker died, or was ended because it did not answer."""


class NoAnswer(WorkerLost):
    """A worker was ended because it did not answer in time."""


class PoolBroken(BurnishError):
    """A pool cannot start workers any more, so that nothing of what it is asked for can be done."""


class Worker(Protocol[S_co]):
    """A process with a state."""

    @property
    def name(self) -> str:
        """What it is known by, for example `engine-0`."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether it can still answer."""
        ...

    def call(self, work: Callable[[S_co], R], *, timeout_s: float | None = None) -> R:
        """Apply a function to the state and return what it returns or raise what it raises; `WorkerLost` if it dies,
        `NoAnswer` if it was ended."""
        ...

    def stop(self, *, at_once: bool = False) -> None:
        """Close the state, or `at_once` just end it and all that it started; safe to call twice, by any thread."""
        ...


@dataclass(eq=False, slots=True, kw_only=True)
class _Job:
    work: Callable[[Any], Any]
    future: "Future[Any]" = field(default_factory=lambda: Future[Any]())
    timeout_s: float | None
    is_bound: bool = False
    """It is for one seat and waits in no queue that is bounded."""
    num_losses: int = 0
    has_begun: bool = False

    def begin(self) -> bool:
        """Whether somebody still waits for it."""
        if not self.has_begun:
            self.has_begun = self.future.set_running_or_notify_cancel()
        return self.has_begun


@dataclass(eq=False, slots=True, kw_only=True)
class _Seat(Generic[S]):
    number: int
    own: deque[_Job] = field(default_factory=lambda: deque[_Job]())
    worker: Worker[S] | None = None
    is_busy: bool = False


class Pool(Generic[S]):
    """See the module's docstring. `prepare` is done with each new worker before it gets jobs."""

    def __init__(
        self, start: Callable[[int], Worker[S]], num_workers: int, *, most_waiting: int = 64, most_losses: int = 3,
        timeout_s: float | None = None, prepare: Callable[[Worker[S]], object] = lambda worker: None,
        tell: Callable[[str], object] = lambda message: None,
    ) -> None:  # fmt: skip
        """Start the workers; `start` is called in the thread that owns the seat. `tell` hears of each that is lost."""
        self._start, self._prepare, self._tell = start, prepare, tell
        self._most_losses, self._timeout_s = most_losses, timeout_s
        self._room = threading.Semaphore(most_waiting)
        self._changed = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._seats = [_Seat[S](number=number) for number in range(num_workers)]
        self._is_stopped = self._was_whole = False
        self._broken: BaseException | None = None
        self.num_lost = 0
        """How many workers died so far."""
        self._threads = [threading.Thread(target=self._serve, args=(seat,), daemon=True) for seat in self._seats]
        for thread in self._threads:
            thread.start()
        self._await_all()

    def submit(self, work: Callable[[S], R], *, timeout_s: float | None = None) -> "Future[R]":
        """Have a worker do this; waits while too many wait already. `timeout_s` is this job's own."""
        self._room.acquire()
        job = _Job(work=work, timeout_s=timeout_s or self._timeout_s)
        with self._changed:
            if self._is_stopped or self._broken:
                self._room.release()  # the next that waits for room must hear of it too
                raise self._broken or CancelledError("the pool was stopped")
            self._queue.append(job)
            self._changed.notify_all()
        return job.future

    def each(self, work: Callable[[S], R]) -> list[R]:
        """Have every worker do this, when it has ended what it does; a worker that is lost meanwhile: its successor."""
        futures = [self.submit_to(seat.number, work) for seat in self._seats]
        return [future.result() for future in futures]

    def submit_to(self, number: int, work: Callable[[S], R]) -> "Future[R]":
        """Have the worker of one seat do this next, or its successor if it is lost meanwhile; never waits."""
        job = _Job(work=work, timeout_s=self._timeout_s, is_bound=True)
        with self._changed:
            if self._is_stopped or self._broken:
                raise self._broken or CancelledError("the pool was stopped")
            self._seats[number].own.append(job)
            self._changed.notify_all()
        return job.future

    def stop(self) -> None:
        """Give up what waits and what runs, end all workers; safe to call twice."""
        with self._changed:
            self._is_stopped = True
            given_up = self._take_all()
            self._changed.notify_all()
            busy = [seat.worker for seat in self._seats if seat.worker and seat.is_busy]
        self._give_up(given_up, None)
        for worker in busy:
            worker.stop(at_once=True)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _await_all(self) -> None:
        """Until every seat is filled; raises what kept one from it."""
        with self._changed:
            self._changed.wait_for(lambda: self._broken or all(seat.worker for seat in self._seats))
            broken = self._broken
            self._was_whole = not broken
        if broken:
            self.stop()
            raise broken

    # In the threads

    def _serve(self, seat: _Seat[S]) -> None:
        try:
            self._fill(seat)
            while job := self._next(seat):
                self._do(seat, job)
        except BaseException as error:  # noqa: BLE001  whoever waits must hear why the seat stays empty
            with self._changed:
                self._broken = self._broken or (self._as_broken(error) if self._was_whole else error)
                given_up = self._take_all()
                self._changed.notify_all()
            self._give_up(given_up, self._broken)
        finally:
            if seat.worker:
                seat.worker.stop()

    def _as_broken(self, error: BaseException) -> BaseException:
        broken = PoolBroken(f"no worker can be started any more: {error}; put that right, then go on by --resume")
        broken.__cause__ = error
        return broken

    def _fill(self, seat: _Seat[S]) -> None:
        """Start a worker, again where it dies before it is ready."""
        for attempt in range(1, self._most_losses + 1):
            with self._changed:
                if self._is_stopped:
                    return
            try:
                worker = self._ready(seat.number)
            except WorkerLost as lost:
                self._note(lost)
                if attempt == self._most_losses:
                    raise
            else:
                with self._changed:
                    seat.worker = worker
                    self._changed.notify_all()
                return

    def _ready(self, number: int) -> Worker[S]:
        worker = self._start(number)
        try:
            self._prepare(worker)
        except BaseException:
            worker.stop(at_once=True)
            raise
        return worker

    def _next(self, seat: _Seat[S]) -> _Job | None:
        """The next job for this seat; meanwhile its worker is replaced if it dies. None when the pool is stopped."""
        while True:
            if seat.worker and not seat.worker.is_alive:
                self._note(WorkerLost(f"worker {seat.worker.name!r} died while it waited for work"))
                self._refill(seat)
            with self._changed:
                if self._is_stopped or self._broken:
                    return None
                if job := self._taken(seat):
                    seat.is_busy = True
                    return job
                self._changed.wait(_GLANCE_S)

    def _taken(self, seat: _Seat[S]) -> _Job | None:
        if seat.own:
            return seat.own.popleft()
        if not self._queue:
            return None
        job = self._queue.popleft()
        if not job.has_begun:
            self._room.release()
        return job

    def _do(self, seat: _Seat[S], job: _Job) -> None:
        assert seat.worker
        if job.begin():
            try:
                result = seat.worker.call(job.work, timeout_s=job.timeout_s)
            except WorkerLost as lost:
                self._lose(seat, job, lost)
            except Exception as error:  # noqa: BLE001  it goes to whoever waits for the job
                job.future.set_exception(error)
            else:
                job.future.set_result(result)
        with self._changed:
            seat.is_busy = False

    def _lose(self, seat: _Seat[S], job: _Job, lost: WorkerLost) -> None:
        """Give the job back, or up, and start another worker."""
        job.num_losses += 1
        is_again = job.num_losses < self._most_losses and not isinstance(lost, NoAnswer)
        with self._changed:
            is_over = self._is_stopped or self._broken
            if is_again and not is_over:
                (seat.own if job.is_bound else self._queue).appendleft(job)
                self._changed.notify_all()
        if is_over:
            job.future.set_exception(self._broken or CancelledError("the pool was stopped"))
            return
        self._note(lost)
        if isinstance(lost, NoAnswer):
            job.future.set_exception(lost)
        elif not is_again:
            job.future.set_exception(
                WorkerLost(f"{lost}; this job has lost {job.num_losses} workers, so it is not tried again")
            )
        self._refill(seat)

    def _refill(self, seat: _Seat[S]) -> None:
        with self._changed:
            worker, seat.worker = seat.worker, None
        if worker:
            worker.stop(at_once=True)
        self._fill(seat)

    def _note(self, lost: WorkerLost) -> None:
        with self._changed:
            self.num_lost += 1
        self._tell(f"{lost}; another is started")

    def _take_all(self) -> list[_Job]:
        """Every job that waits; nobody will begin it."""
        jobs = [*self._queue, *(job for seat in self._seats for job in seat.own)]
        self._queue.clear()
        for seat in self._seats:
            seat.own.clear()
        return jobs

    def _give_up(self, jobs: Sequence[_Job], error: BaseException | None) -> None:
        """End jobs, without the lock: whoever hears of it may ask for more."""
        for job in jobs:
            if not job.is_bound and not job.has_begun:
                self._room.release()
            if job.begin():
                job.future.set_exception(error or CancelledError("the pool was stopped"))
