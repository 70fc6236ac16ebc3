"""Demonstrations of several turns: a task's oracle plays an episode, and what the world answers is answered for real.

The turns are the oracle's calls as the model writes calls; they are marked as sampled, so that supervised training
learns all of them and nothing between. An episode that did not solve its task teaches nothing and is left out.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from burnish.chat import probes
from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.types import Completion, Trajectory
from burnish.domains import HasEnvironment
from burnish.engine.types import Request, SamplingParams
from burnish.rollout.episode import Episode
from burnish.rollout.episodes import make_episodes
from burnish.rollout.means import NO_LIMIT, Attempt, Means
from burnish.rollout.mixture import Draw


def demonstrated(means: Means, draws: Sequence[Draw]) -> Iterator[Trajectory]:
    """Play each task as its oracle does; the episodes that solved theirs, as they end."""
    params = SamplingParams(max_new_tokens=NO_LIMIT)
    attempts = [Attempt(group_of(draw), draw, draw.number, 1, params) for draw in draws]
    for done in make_episodes(means, attempts, lambda group, member: False, sampling=OracleTurns(means.chat)):
        if is_solved(done.trajectory):
            yield done.trajectory


def group_of(draw: Draw) -> str:
    """What a demonstration is kept under: the draw, since entries with other options may give one id to two tasks."""
    return f"{draw.number:07d}"


def is_solved(episode: Trajectory) -> bool:
    """Whether an episode's outcome is whole, whatever its way there was worth."""
    verdict = episode.verdict
    return verdict is not None and verdict.score is not None and verdict.parts.get("outcome", verdict.score) == 1


class OracleTurns:
    """Turns that are known, in place of those that are sampled; see `EpisodeSampling`."""

    def __init__(self, chat: Chat) -> None:
        self._chat: Final = chat
        self._asked: Final[deque[Episode]] = deque()

    @property
    def is_busy(self) -> bool:
        """See `EpisodeSampling`."""
        return bool(self._asked)

    def ask(self, episode: Episode, request: Request) -> None:
        """See `EpisodeSampling`."""
        self._asked.append(episode)

    def advance(self) -> Sequence[tuple[Episode, Completion]]:
        """See `EpisodeSampling`."""
        episode = self._asked.popleft()
        domain, task = episode.attempt.draw.source.domain, episode.attempt.draw.task
        assert isinstance(domain, HasEnvironment)
        calls = domain.oracle(task) or ()
        if len(episode.steps) >= len(calls):
            raise ConfigError(
                f"the oracle of task {task.id!r} has {len(calls)} turns, and its episode goes on after them"
            )
        call = calls[len(episode.steps)]
        text = (
            episode.speech.write(call, episode.tools) if episode.tools else " ".join(map(str, call.arguments.values()))
        )
        token_ids = (*self._lead, *self._chat.reply_ids(text))
        return [(episode, _given(token_ids, self._chat.decode(token_ids)))]

    def close(self) -> None:
        """See `EpisodeSampling`."""
        self._asked.clear()

    @cached_property
    def _lead(self) -> tuple[int, ...]:
        """The words of its own that the template puts before a reply, such as an empty thought."""
        whole = self._chat.demonstration([probes.HELLO], probes.TOOL_RESULT).token_ids
        given, said = len(self._chat.prompt_ids([probes.HELLO])), len(self._chat.reply_ids(probes.TOOL_RESULT))
        return whole[given : len(whole) - said]


def _given(token_ids: tuple[int, ...], text: str) -> Completion:
    nothing = len(token_ids)
    return Completion(
        token_ids=token_ids, logprobs=(0.0,) * nothing, versions=(0,) * nothing, text=text, stop_reason="eos"
    )
