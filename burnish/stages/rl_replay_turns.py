"""What replicas did in a run, done again: the same members and weights between the same steps of each replica."""

from burnish.engine.replica_turns import Applied
from burnish.engine.replicas import ReplicaEngine
from burnish.engine.types import Request
from burnish.rollout.stream import Sample, Stream
from burnish.rollout.stream_episodes import Turn
from burnish.rollout.stream_log import Died, Key, Turned
from burnish.runtime.transport import Update


class TurnsAgain:
    """Begins, cuts and interrupts as the run's loop did; replicas do by the events of their turns what came of it."""

    def __init__(self, engine: ReplicaEngine, stream: Stream) -> None:
        """The replicas get the policy's weights as they are now."""
        self._engine, self._stream = engine, stream
        self._repeated = engine.repeated()
        self._updates: dict[int, Update] = {}
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        self._requests: dict[int, Request] = {}
        self._cut: set[Key] = set()

    def learned(self) -> None:
        """The policy has moved: its weights can be loaded from now on."""
        if (update := self._engine.published()) is not None:
            self._updates[update.version] = update

    def begin(self, key: Key) -> None:
        """A member's group is under way."""
        if key.number not in self._stream.pending:
            self._stream.adopt(key.number)

    def cut(self, key: Key) -> None:
        """What a replica finishes of this member is not wanted."""
        self._cut.add(key)

    def interrupt(self) -> None:
        """The process ended, and its replicas with it."""
        self._stream.interrupt()
        self._repeated.begin_all_anew()

    def close(self) -> None:
        """Leave all replicas with the newest weights."""
        self._repeated.catch_up(self._updates)
        self._forget_loaded()

    def apply(self, event: Turned | Died) -> list[Sample | Turn]:
        """Have a replica do it again; returns what it finished that was wanted."""
        if isinstance(event, Died):
            self._repeated.begin_anew(event.replica)
            return []
        for key in event.began:
            if key not in self._numbers:
                self._numbers[key] = len(self._keys)
                self._keys.append(key)
            self._requests[self._numbers[key]] = self._stream.request(key)
        entry = Applied(
            event.replica, event.tick, event.last, event.version, cancelled=self._known(event.cut),
            submitted=self._known(event.began), finished=(),
        )  # fmt: skip
        finished = self._repeated.apply(entry, self._requests, self._updates)
        self._forget_loaded()
        wanted = [(self._keys[each.request], each.completion) for each in finished]
        return [self._stream.finish(key, completion) for key, completion in wanted if self._is_wanted(key)]

    def _known(self, keys: tuple[Key, ...]) -> tuple[int, ...]:
        return tuple(self._numbers[key] for key in keys)

    def _is_wanted(self, key: Key) -> bool:
        return key not in self._cut and key.number in self._stream.pending

    def _forget_loaded(self) -> None:
        if self._updates and self._repeated.oldest_version >= max(self._updates):
            self._engine.forget_published()
            self._updates.clear()
