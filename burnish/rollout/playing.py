"""Episodes that are under way: what happens to each when its world has answered, or its turn was sampled.

Worlds are made, stepped, judged and ended in the background. Whoever drives this samples turns (`EpisodeSampling`),
tells of them (`sampled`) and takes what has ended (`go_on`). At most `max_open` worlds exist at once; what is begun
beyond that waits.

Decisions:
- What an episode may spend is limited; the recipe says what happens at each limit. Where the policy's context would not
  hold another whole turn, the limit `tokens` is hit.
- A failure of the machinery runs an episode again, `num_runs` times in all, with other samples; then it is recorded as
  such and does not train. A fault of a domain's own is recorded as unscorable.
"""

import asyncio
import queue
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from burnish.chat.tool_calls import speech_of
from burnish.core.errors import BurnishError, ConfigError, SandboxError
from burnish.core.types import Completion, Message, Verdict
from burnish.domains import Action, Environment, HasEnvironment, Judgement, Observation
from burnish.rollout.episode import Episode, failed
from burnish.rollout.episode_limits import LEAST_TURN, Limits, last_words
from burnish.rollout.episode_sampling import EpisodeSampling
from burnish.rollout.means import Attempt, Done, Means

T = TypeVar("T")
ENDING_S: Final = 30.0


class Start(NamedTuple):
    """An episode that is to begin; `run` counts how often it was begun before."""

    attempt: Attempt
    member: int
    run: int


class _Arrival(NamedTuple):
    """Something that was waited for has come; `then` says what to do with it."""

    episode: Episode
    future: Future[Any]
    then: Callable[[Episode, Any], Done | None]


class Playing:
    """See the module's docstring."""

    def __init__(self, means: Means, sampling: EpisodeSampling, *, num_runs: int) -> None:
        self._means, self._sampling, self._num_runs = means, sampling, num_runs
        self._limits = Limits(config=means.episodes, context=means.context)
        self._starts: deque[Start] = deque()
        self._open: set[Episode] = set()
        self._ending: set[Future[None]] = set()
        self._waiting: dict[Future[Any], Episode] = {}
        self._arrivals: queue.SimpleQueue[_Arrival | None] = queue.SimpleQueue()
        """None: a world has gone, and there is room for another."""
        self._speech = speech_of(means.chat)

    @property
    def num_to_come(self) -> int:
        """How many episodes have not ended."""
        return len(self._starts) + len(self._open)

    @property
    def num_in_worlds(self) -> int:
        """How many wait for a world, or for room to be made one."""
        return len(self._waiting) + len(self._starts)

    def status(self) -> str:
        """What is under way, in words."""
        num_worlds = len(self._waiting)
        return f"{len(self._open)} episodes, {num_worlds} of them wait for their worlds; {len(self._starts)} to begin"

    def begin(self, start: Start) -> None:
        """Have an episode begin as soon as there is room."""
        self._starts.append(start)

    def go_on(self, wait_s: float | None = 0.0) -> Iterator[Done]:
        """Take what has come, and give what ended; waits so long for a first thing, None without end."""
        while self._starts and len(self._open) + len(self._ending) < self._means.episodes.max_open:
            self._open_world(self._starts.popleft())
        for episode, future, then in self._arrived(wait_s if self._waiting or self._ending else 0.0):
            if self._waiting.pop(future, None) is None:
                continue  # the episode was cut just before
            self._means.watchdog.beat()
            if (done := then(episode, future.result())) is not None:
                yield done

    def sampled(self, episode: Episode, completion: Completion) -> None:
        """Tell of a turn that was asked for."""
        self._act(episode, episode.sampled(completion, self._means.chat.answer(completion.text)))

    def cut(self, group_id: str, member: int) -> None:
        """Let go of an episode, whatever it is at; what was asked of the engine is the caller's to stop."""
        self._starts = deque(one for one in self._starts if (one.attempt.group_id, one.member) != (group_id, member))
        for episode in [one for one in self._open if (one.attempt.group_id, one.member) == (group_id, member)]:
            for future in [future for future, waits in self._waiting.items() if waits is episode]:
                del self._waiting[future]
                future.cancel()
            self._end(episode)

    def stop(self) -> None:
        """Leave nothing running."""
        self._sampling.close()
        self._starts.clear()
        for future in list(self._waiting):
            future.cancel()
        self._means.background.run(_all_stopped([episode.environment for episode in self._open]))
        self._open.clear()
        self._waiting.clear()
        for future in list(self._ending):
            future.result()

    def _open_world(self, start: Start) -> None:
        domain, task = start.attempt.draw.source.domain, start.attempt.draw.task
        assert isinstance(domain, HasEnvironment)
        if self._means.backend is None:
            raise ConfigError(f"{domain.name} has episodes, and nothing was opened for their worlds to be in")
        episode = Episode(
            attempt=start.attempt, member=start.member, run=start.run, speech=self._speech, tools=domain.tools,
            environment=domain.environment(self._means.backend),
        )  # fmt: skip
        self._open.add(episode)
        work = episode.environment.reset(task, start.attempt.seed)
        self._wait(episode, work, self._means.episodes.wall_s, self._reset)

    def _arrived(self, wait_s: float | None) -> Iterator[_Arrival]:
        with suppress(queue.Empty):
            while True:
                arrival = self._arrivals.get(timeout=wait_s) if wait_s != 0 else self._arrivals.get_nowait()
                wait_s = 0
                if arrival is not None:
                    yield arrival

    def _wait(
        self,
        episode: Episode,
        work: Awaitable[T],
        wall_s: float,
        then: Callable[[Episode, T | Verdict], Done | None],
    ) -> None:
        """Have something done in the background, and go on with what comes of it."""
        episode.asked_s = time.monotonic()
        future = self._means.background.submit(_within(work, wall_s, episode.attempt.draw.source.domain.name))
        self._waiting[future] = episode
        future.add_done_callback(
            lambda done: None if done.cancelled() else self._arrivals.put(_Arrival(episode, done, then))
        )

    # The life of an episode, event by event

    def _reset(self, episode: Episode, come: Sequence[Message] | Verdict) -> Done | None:
        if isinstance(come, Verdict):
            return self._judged(episode, come)
        episode.begin(self._means.chat, come)
        if self._limits.room(episode) < LEAST_TURN:
            written = self._means.episodes.max_tokens or "as many"
            raise ConfigError(
                f"task {episode.attempt.draw.task.id!r} begins with {len(episode.token_ids)} tokens; the policy takes "
                f"in {self._means.context}, and may write {written}: no turn has room"
            )
        self._ask(episode)
        return None

    def _ask(self, episode: Episode) -> None:
        episode.asked_s = time.monotonic()
        num_tokens = min(self._limits.turn_tokens(episode), self._limits.room(episode))
        self._sampling.ask(episode, episode.request(num_tokens))

    def _act(self, episode: Episode, action: Action) -> None:
        self._wait(episode, episode.environment.step(action), self._limits.left_s(episode), self._stepped)

    def _stepped(self, episode: Episode, come: Observation | Verdict) -> Done | None:
        if isinstance(come, Verdict) and come.kind != "timeout":
            return self._judged(episode, come)
        observation = Observation(text="Out of time.") if isinstance(come, Verdict) else come
        episode.answered(observation)
        if observation.done or episode.is_last:
            self._finish(episode)
            return None
        if episode.limit is None:
            episode.limit = self._limits.spent(episode)
        self._fall_back(episode, observation.text)
        return None

    def _fall_back(self, episode: Episode, text: str) -> None:
        """Go on, or do what the recipe says of the limit that was hit."""
        match self._limits.fallback(episode.limit):
            case None:
                self._go_on(episode, text)
            case "ask":
                assert episode.limit is not None
                episode.is_last = True
                self._go_on(episode, f"{text}\n{last_words(episode.limit)}")
            case "hand_over" if episode.num_helped < self._limits.most_steps(episode.attempt.draw.task):
                episode.go_on(self._means.chat, text)
                self._get_help(episode)
            case "restore":
                self._finish(episode, restores=True)
            case _:
                self._finish(episode)

    def _go_on(self, episode: Episode, text: str) -> None:
        """Ask for another turn, unless what the policy is told leaves no room for one."""
        episode.go_on(self._means.chat, text)
        if self._limits.room(episode) >= LEAST_TURN:
            self._ask(episode)
            return
        episode.limit = episode.limit or "tokens"
        self._finish(episode)

    def _get_help(self, episode: Episode) -> None:
        helper = self._means.helper
        assert helper is not None, "a recipe with `hand_over` has a helper"
        self._wait(episode, helper(episode.messages), self._means.episodes.wall_s, self._helped)

    def _helped(self, episode: Episode, come: str | Verdict) -> Done | None:
        if isinstance(come, Verdict):
            return self._judged(episode, come)
        self._act(episode, episode.helped(self._means.chat, come))
        return None

    def _finish(self, episode: Episode, *, restores: bool = False) -> None:
        wall_s = episode.attempt.draw.task.limits.verify_wall_s
        self._wait(episode, _judgement(episode.environment, restores), wall_s, self._judged)

    def _judged(self, episode: Episode, come: Judgement | Verdict) -> Done | None:
        """An episode has ended, well or badly."""
        judgement = failed(come) if isinstance(come, Verdict) else come
        verify_s = time.monotonic() - episode.asked_s
        self._end(episode)
        if judgement.verdict.kind in ("infrastructure_error", "timeout") and episode.run + 1 < self._num_runs:
            self._starts.appendleft(Start(episode.attempt, episode.member, episode.run + 1))
            return None
        version = self._means.engine.version
        return Done(episode.attempt, episode.trajectory(judgement, version=version, verify_s=verify_s))

    def _end(self, episode: Episode) -> None:
        """End a world, which goes on counting until it has gone."""
        self._open.discard(episode)
        ending = self._means.background.submit(_all_stopped([episode.environment]))
        self._ending.add(ending)
        ending.add_done_callback(self._ended)

    def _ended(self, ending: Future[None]) -> None:
        self._ending.discard(ending)
        self._arrivals.put(None)


async def _judgement(environment: Environment, restores: bool) -> Judgement:
    if restores:
        await environment.restore()
    return await environment.verdict()


async def _within(work: Awaitable[T], wall_s: float, domain: str) -> T | Verdict:
    """The one boundary: what goes wrong in a world is data, and stops no run."""
    try:
        async with asyncio.timeout(wall_s):
            return await work
    except TimeoutError:
        return Verdict.timed_out(f"the environment of {domain} did not answer within {wall_s:.0f} s")
    except SandboxError as error:
        return Verdict.infrastructure_error(str(error))
    except BurnishError as error:
        return Verdict.infrastructure_error(f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001  see above
        return Verdict.unscorable(f"the environment of {domain} raised {type(error).__name__}: {error}")


async def _all_stopped(environments: Sequence[Environment]) -> None:
    """Stop worlds side by side; one that cannot be stopped in time keeps no other."""
    stopping: list[Coroutine[Any, Any, None]] = [environment.stop() for environment in environments]
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDING_S):
            await asyncio.gather(*stopping, return_exceptions=True)
