"""What replicas did, as events of the stream: which members each of them began and finished at which of its steps."""

from collections.abc import Sequence

from burnish.engine.replica_turns import Applied, Entry, Lost
from burnish.engine.replicas import ReplicaEngine
from burnish.rollout.stream_log import Died, Event, Key, Said, Sampled, Turned


class TurnLog:
    """Reads the engine's log; it knows requests by number, events know members."""

    def __init__(self, engine: ReplicaEngine) -> None:
        self._engine = engine
        self._keys: dict[int, Key] = {}

    def name(self, number: int, key: Key) -> None:
        """A request of that number samples this member."""
        self._keys[number] = key

    def events(self, samples: Sequence[Sampled | Said]) -> list[Event]:
        """What the engine did since the last call, with the samples that its last step told of, in the same order."""
        left = iter(samples)
        events: list[Event] = []
        for entry in self._engine.take_log():
            events.append(self._event(entry))
            if isinstance(entry, Applied):
                events += [next(left) for _ in entry.finished]
        return events

    def _event(self, entry: Entry) -> Event:
        if isinstance(entry, Lost):
            return Died(entry.replica, entry.version)
        began = tuple(self._keys[number] for number in entry.submitted)
        cut = tuple(self._keys[number] for number in entry.cancelled)
        for number in (*(finished.request for finished in entry.finished), *entry.cancelled):
            self._keys.pop(number, None)
        return Turned(entry.replica, entry.tick, entry.last, entry.version, began, cut)
