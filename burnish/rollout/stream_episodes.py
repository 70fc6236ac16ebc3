"""Episodes of a stream: their turns go through the stream's engine, their worlds go on in the background.

What is to be asked of the engine is handed out (`take`), so that the loop can keep it in its ledger before it takes
effect. A failure of the machinery ends an episode without a score; whether it is tried again is the scheduler's to say.
An attempt's samples are those of the synchronous loop's run of that number, where weights are the same.
"""

from typing import NamedTuple

from burnish.core.types import Completion, Trajectory
from burnish.engine.types import Request
from burnish.rollout.attempts import Attempt
from burnish.rollout.episode import Episode
from burnish.rollout.means import Means
from burnish.rollout.playing import Playing, Start
from burnish.rollout.stream_log import Asked, Key


class Turn(NamedTuple):
    """A finished turn of an episode."""

    key: Key
    completion: Completion


class Question(NamedTuple):
    """A turn that an engine is to be asked for."""

    asked: Asked
    request: Request


class Ending(NamedTuple):
    """An episode that has ended, with its verdict."""

    key: Key
    trajectory: Trajectory


class StreamEpisodes:
    """See the module's docstring; for `Playing` it is the `EpisodeSampling`, of which it uses `ask` alone."""

    def __init__(self, means: Means) -> None:
        self._playing = Playing(means, self, num_runs=1)
        self._keys: dict[tuple[str, int], Key] = {}
        """Of each member that plays; an earlier attempt at it was cut."""
        self._questions: list[tuple[Episode, Request]] = []
        self._asked: dict[Key, Episode] = {}

    @property
    def num_in_worlds(self) -> int:
        """How many episodes wait for a world."""
        return self._playing.num_in_worlds

    def status(self) -> str:
        """What is under way, in words."""
        return self._playing.status()

    def begin(self, key: Key, attempt: Attempt) -> None:
        """Have an episode begin as soon as there is room for its world."""
        self._keys[attempt.group_id, key.member] = key
        self._playing.begin(Start(attempt, key.member, key.attempt))

    def said(self, turn: Turn) -> None:
        """Tell of a turn that the engine has finished."""
        self._playing.sampled(self._asked.pop(turn.key), turn.completion)

    def cut(self, key: Key, attempt: Attempt) -> None:
        """Let go of an episode, whatever it is at."""
        self._asked.pop(key, None)
        if self._keys.get((attempt.group_id, key.member)) == key:
            self._questions = [one for one in self._questions if self._key(one[0]) != key]
            self._playing.cut(attempt.group_id, key.member)
            del self._keys[attempt.group_id, key.member]

    def take(self, wait_s: float = 0.0) -> tuple[list[Question], list[Ending]]:
        """What worlds have answered and what has ended since the last call; waits so long for a first answer."""
        endings = [
            Ending(self._keys.pop((attempt.group_id, trajectory.member)), trajectory)
            for attempt, trajectory in self._playing.go_on(wait_s)
        ]
        questions = [self._question(episode, request) for episode, request in self._questions]
        self._questions = []
        return questions, endings

    def stop(self) -> None:
        """Leave nothing running."""
        self._playing.stop()
        self._asked.clear()
        self._questions.clear()
        self._keys.clear()

    # What `Playing` asks of whoever samples

    @property
    def is_busy(self) -> bool:
        """See `EpisodeSampling`."""
        return bool(self._asked)

    def ask(self, episode: Episode, request: Request) -> None:
        """See `EpisodeSampling`."""
        self._questions.append((episode, request))

    def advance(self) -> list[tuple[Episode, Completion]]:
        """See `EpisodeSampling`: the stream steps the engine."""
        return []

    def close(self) -> None:
        """See `EpisodeSampling`: the stream cancels what it submitted."""

    def _question(self, episode: Episode, request: Request) -> Question:
        key = self._key(episode)
        self._asked[key] = episode
        end = episode.steps[-1].end if episode.steps else 0
        asked = Asked(key, request.params.max_new_tokens, request.prompt_ids[end:])
        return Question(asked, request)

    def _key(self, episode: Episode) -> Key:
        return self._keys[episode.attempt.group_id, episode.member]
