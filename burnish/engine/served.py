"""An engine over a server: a thread for each sample under way, at most `max_rows` of them.

Decisions: one request a sample and not one a group, so that each is yielded when it is finished, can be given up
alone, and has a seed of its own; the server's prefix cache makes the shared prompt cheap. Weights that have moved are
sent before the first sample that needs them. A sample whose answer cannot be believed has failed: `step` says so,
`sample` draws it again with another seed, `_MOST_REDRAWS` times, and then raises. Samples that nobody waits for any
more are given up, and the server is told by the closed connection.

`versions` of a completion is the version when the sample was asked for; where an update falls into a sample, its
later tokens are newer than that.

Covered: `LiveEngine` but for `Sampled` events (nothing streams). Not covered: LoRA adapters by request.
"""

import itertools
import queue
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import BurnishError, ConfigError, EngineError
from burnish.core.seeds import derive
from burnish.core.types import Completion
from burnish.engine.http_client import GivenUp, Lifeline
from burnish.engine.types import Event, Failed, Finished, QueueFull, Request
from burnish.engine.wire import Job, Wire, read, refuse_unmet

_MOST_REDRAWS = 2
_MOST_WAITING = 1 << 16


class Stamp(NamedTuple):
    """The policy's version that a server samples from, and the name that the server knows it by."""

    version: int
    label: str


class Weights(Protocol):
    """Which weights the server has."""

    @property
    def version(self) -> int:
        """The version that the next sample comes from."""
        ...

    def bring(self) -> Stamp:
        """See to it that the server has the policy's weights, and say which."""
        ...

    def close(self) -> None:
        """Let go of what was opened."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What an engine is opened on. `most_tokens` is the longest sequence that server and model take."""

    name: str
    wire: Wire
    weights: Weights
    chat: Chat
    max_rows: int
    most_tokens: int | None
    close: Callable[[], None] = lambda: None


_Told: TypeAlias = "queue.SimpleQueue[tuple[_Sample, Event | BaseException]]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sample:
    """One sample that was asked for, and who hears of it."""

    number: int
    sample: int
    request: Request
    stamp: Stamp
    lifeline: Lifeline
    events: _Told


class ServedEngine:
    """See the module's docstring."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._pool = ThreadPoolExecutor(place.max_rows, thread_name_prefix=f"engine-{place.name}")
        self._events: _Told = queue.SimpleQueue()
        self._under_way: dict[tuple[int, int], _Sample] = {}
        self._begun: set[int] = set()
        self._numbers = itertools.count()
        self._labels: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """See `Engine`."""
        return self._place.weights.version

    @property
    def num_waiting(self) -> int:
        """See `LiveEngine`."""
        return len({number for number, _ in self._under_way} - self._begun)

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """See `Engine`."""
        self._check(requests)
        events: _Told = queue.SimpleQueue()
        stamp = self._bring()
        index_of = {self._start(request, stamp, events): index for index, request in enumerate(requests)}
        num_missing = sum(request.num_samples for request in requests)
        num_redraws: Counter[tuple[int, int]] = Counter()
        try:
            while num_missing:
                one, event = self._next(events)
                if isinstance(event, Failed):
                    num_redraws[one.number, one.sample] += 1
                    self._redraw(one, event.error, num_redraws[one.number, one.sample])
                elif isinstance(event, Finished):
                    num_missing -= 1
                    yield event._replace(request=index_of[one.number])
        finally:
            for number in index_of:
                self.cancel(number)

    def submit(self, request: Request) -> int:
        """See `LiveEngine`."""
        self._check([request])
        if self.num_waiting >= _MOST_WAITING:
            raise QueueFull(f"engine {self._place.name!r}: {_MOST_WAITING} requests wait already")
        return self._start(request, self._bring(), self._events)

    def cancel(self, number: int) -> None:
        """See `LiveEngine`."""
        for key in [key for key in self._under_way if key[0] == number]:
            self._under_way.pop(key).lifeline.cut()
        self._begun.discard(number)

    def step(self) -> list[Event]:
        """See `LiveEngine`; waits until a sample that was submitted has ended."""
        events: list[Event] = []
        while any(one.events is self._events for one in self._under_way.values()):
            events.append(self._next(self._events)[1])
            if self._events.empty():
                break
        return events

    def close(self) -> None:
        """Give up what is under way and end the threads; safe to call twice."""
        for number in {number for number, _ in self._under_way}:
            self.cancel(number)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._place.weights.close()
        self._place.close()

    def _check(self, requests: Sequence[Request]) -> None:
        refuse_unmet(self._place.name, self._place.wire, requests)
        for request in requests:
            _check_length(request, self._place.most_tokens)

    def _bring(self) -> Stamp:
        stamp = self._place.weights.bring()
        self._labels = (*self._labels, stamp.label) if self._under_way else (stamp.label,)
        return stamp

    def _start(self, request: Request, stamp: Stamp, events: _Told) -> int:
        number = next(self._numbers)
        for sample in range(request.num_samples):
            self._launch(
                _Sample(number=number, sample=sample, request=request, stamp=stamp, lifeline=Lifeline(), events=events)
            )
        return number

    def _launch(self, one: _Sample) -> None:
        self._under_way[one.number, one.sample] = one
        self._pool.submit(self._run, one)

    def _run(self, one: _Sample) -> None:
        """In a thread: whatever happens is told, or the one who waits would wait for ever."""
        if one.lifeline.is_cut:
            return
        self._begun.add(one.number)
        try:
            one.events.put((one, Finished(one.number, one.sample, self._draw(one))))
        except GivenUp:
            return
        except EngineError as error:
            one.events.put((one, Failed(one.number, one.sample, error)))
        except BaseException as error:
            one.events.put((one, error))
            raise

    def _draw(self, one: _Sample) -> Completion:
        job = Job(
            id=f"{one.number}-{one.sample}",
            prompt_ids=one.request.prompt_ids,
            params=one.request.params,
            seed=derive(one.request.seed, one.sample),
            label=one.stamp.label,
            wants_prompt_logprobs=one.request.prompt_logprobs,
        )
        drawn = self._place.wire.draw(job, one.lifeline)
        return read(drawn, job, self._place.chat, one.stamp.version, self._labels)

    def _next(self, events: _Told) -> tuple[_Sample, Event]:
        """The next event of a sample that somebody still waits for."""
        while True:
            one, event = events.get()
            if self._under_way.get((one.number, one.sample)) is not one:
                continue
            del self._under_way[one.number, one.sample]
            if not any(number == one.number for number, _ in self._under_way):
                self._begun.discard(one.number)
            if isinstance(event, BaseException):
                raise event
            return one, event

    def _redraw(self, one: _Sample, error: BurnishError, number: int) -> None:
        if number > _MOST_REDRAWS:
            raise error
        request = replace(one.request, seed=derive(one.request.seed, "redraw", number))
        self._launch(replace(one, request=request, lifeline=Lifeline()))


def shortest(model: PreTrainedModel, served: int | None) -> int | None:
    """The longest sequence that both the model and the server take."""
    own: int | None = model.config.to_dict().get("max_position_embeddings")
    return min((limit for limit in (own, served) if limit), default=None)


def _check_length(request: Request, limit: int | None) -> None:
    needed = len(request.prompt_ids) + request.params.max_new_tokens
    if not request.prompt_ids:
        raise ConfigError("a request has an empty prompt; it needs at least one token")
    if limit is not None and needed > limit:
        raise ConfigError(
            f"prompt of {len(request.prompt_ids)} tokens and max_new_tokens {request.params.max_new_tokens} exceed "
            f"the context of {limit} of the model or its server; shorten the prompt or lower max_new_tokens"
        )
