"""Episodes of a run, sampled again without their worlds: what a world told is in the events, as tokens."""

from collections.abc import Mapping
from dataclasses import replace

from burnish.core.types import Trajectory
from burnish.engine.types import Request
from burnish.rollout.episode import seed_of
from burnish.rollout.stream import Stream
from burnish.rollout.stream_episodes import Turn
from burnish.rollout.stream_log import Asked, Key, Played, digest


class EpisodesAgain:
    """Asks the stream for the turns that the run asked for; what came of an episode is what was kept of it."""

    def __init__(self, stream: Stream, records: Mapping[tuple[int, int], Trajectory]) -> None:
        self._stream, self._records = stream, records
        self._tokens: dict[Key, tuple[int, ...]] = {}
        self._num_turns: dict[Key, int] = {}

    def begin(self, key: Key) -> None:
        """An attempt at a member begins, perhaps again after the process had ended."""
        self._tokens.pop(key, None)
        self._num_turns.pop(key, None)

    def ask(self, event: Asked) -> None:
        """Submit a turn."""
        key, number = event.key, self._num_turns.get(event.key, 0)
        attempt = self._stream.origin.attempt(key.number)
        self._tokens[key] = self._tokens.get(key, ()) + event.given
        self._num_turns[key] = number + 1
        request = Request(
            prompt_ids=self._tokens[key], seed=seed_of(attempt.seed, key.member, key.attempt, number),
            params=replace(attempt.params, max_new_tokens=event.max_new_tokens),
        )  # fmt: skip
        self._stream.ask(key, request)

    def said(self, turn: Turn) -> None:
        """Write down a turn."""
        self._tokens[turn.key] += turn.completion.token_ids

    def end(self, event: Played) -> bool:
        """Take up what was kept of an episode; whether its tokens are those that were sampled again."""
        tokens = self._tokens.pop(event.key, ())
        record = self._records.get((event.key.number, event.key.member))
        if record is None or digest(record) != event.digest:
            return True  # another attempt took its place, and this one trained nothing
        self._stream.ended(event.key, record)
        return record.token_ids[: len(tokens)] == tokens
