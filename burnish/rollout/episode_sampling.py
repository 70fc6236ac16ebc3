"""Turns of many episodes through one engine: asked for at any time, given as they are finished.

An engine that steps (`LiveEngine`) takes the next turn of one episode while others are in the middle of theirs, and
keeps what it has computed of each, so that a turn costs its own tokens and those of the observation before it. Any
other engine gets what is waiting as one batch, and the next when that has ended; what it computes again is its own
business.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from burnish.core.types import Completion
from burnish.engine.types import Engine, Failed, Finished, LiveEngine, Request
from burnish.rollout.episode import Episode


class EpisodeSampling(Protocol):
    """Where turns are sampled."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn was asked for and not given."""
        ...

    def ask(self, episode: Episode, request: Request) -> None:
        """Ask for the next turn of an episode."""
        ...

    def advance(self) -> Sequence[tuple[Episode, Completion]]:
        """Sample on for a while; returns the turns that were finished."""
        ...

    def close(self) -> None:
        """Stop what is under way, and leave nothing in the engine."""
        ...


def sampling_of(engine: Engine) -> EpisodeSampling:
    """How an engine samples turns."""
    return LiveTurns(engine) if isinstance(engine, LiveEngine) else BatchedTurns(engine)


class LiveTurns:
    """See the module's docstring, and `EpisodeSampling`."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine: Final = engine
        self._under_way: Final[dict[int, Episode]] = {}
        _clear(engine)

    @property
    def is_busy(self) -> bool:
        """See `EpisodeSampling`."""
        return bool(self._under_way)

    def ask(self, episode: Episode, request: Request) -> None:
        """See `EpisodeSampling`."""
        self._under_way[self._engine.submit(request)] = episode

    def advance(self) -> Sequence[tuple[Episode, Completion]]:
        """See `EpisodeSampling`: one step of the engine."""
        turns: list[tuple[Episode, Completion]] = []
        for event in self._engine.step():
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Finished):
                turns.append((self._under_way.pop(event.request), event.completion))
        return turns

    def close(self) -> None:
        """See `EpisodeSampling`."""
        for number in self._under_way:
            self._engine.cancel(number)
        self._under_way.clear()
        _clear(self._engine)


class BatchedTurns:
    """See the module's docstring, and `EpisodeSampling`."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._waiting: list[tuple[Episode, Request]] = []
        self._batch: list[tuple[Episode, Request]] = []
        self._samples: Iterator[Finished] = iter(())
        self._num_left = 0

    @property
    def is_busy(self) -> bool:
        """See `EpisodeSampling`."""
        return bool(self._waiting) or self._num_left > 0

    def ask(self, episode: Episode, request: Request) -> None:
        """See `EpisodeSampling`."""
        self._waiting.append((episode, request))

    def advance(self) -> Sequence[tuple[Episode, Completion]]:
        """See `EpisodeSampling`: one more turn of the batch."""
        if not self._num_left:
            self._batch, self._waiting = self._waiting, []
            self._num_left = len(self._batch)
            self._samples = self._engine.sample([request for _, request in self._batch])
        finished = next(self._samples)
        self._num_left -= 1
        return [(self._batch[finished.request][0], finished.completion)]

    def close(self) -> None:
        """See `EpisodeSampling`."""
        self._samples, self._waiting, self._num_left = iter(()), [], 0


def _clear(engine: LiveEngine) -> None:
    """An engine is in the same state after sampling nothing as when it was opened."""
    for _ in engine.sample([]):
        raise AssertionError("nothing was asked for")
