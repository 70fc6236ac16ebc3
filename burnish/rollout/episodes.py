"""Episodes: attempts of several turns, each in a world of its own, sampled side by side through one engine.

The main thread samples; worlds are made, stepped, judged and ended in the background. An episode that waits for its
world holds up no other: whichever observation comes first is answered next. At most `max_open` worlds exist at once.

What an episode may spend is limited (`EpisodesConfig`); the recipe says what happens at each limit. Where the policy's
context would not hold another whole turn, the limit `tokens` is hit.

Decisions:
- Finished episodes are recorded one by one by whoever called; one that is cut off leaves nothing and is run again
  whole.
- A failure of the machinery runs an episode again, `NUM_RUNS` times in all, with other samples; then it is recorded as
  such and does not train. A fault of a domain's own is recorded as unscorable.
- What is sampled depends on the seed, the member and the turn, but which turns share a forward depends on when worlds
  answer. So samples repeat bit for bit only with an engine that is `exact`, and in worlds that answer alike.
Not covered: going on with an unfinished episode; asynchronous updates (stage `rl` refuses them with episodes by name).
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
from burnish.core.recipe import EpisodesConfig, Fallback, Limit
from burnish.core.types import Completion, Message, Verdict
from burnish.domains import Action, Domain, Environment, HasEnvironment, Judgement, Observation
from burnish.rollout.episode import Episode, failed
from burnish.rollout.episode_sampling import EpisodeSampling, sampling_of
from burnish.rollout.means import Attempt, Done, Means

T = TypeVar("T")
NUM_RUNS: Final = 3
LEAST_STEP_S: Final = 1.0
ENDING_S: Final = 30.0
LEAST_TURN: Final = 16
"""A last turn of fewer tokens is not worth asking for."""
LAST_WORDS: Final = "This is your last turn: {limit} are used up. Finish now."
WORDS: Final[dict[Limit, str]] = {
    "steps": "all turns", "tokens": "all tokens", "output": "all observations", "wall": "time and patience"
}  # fmt: skip


class _Start(NamedTuple):
    """An episode that is to begin."""

    attempt: Attempt
    member: int
    run: int


class _Arrival(NamedTuple):
    """Something that was waited for has come; `then` says what to do with it."""

    episode: Episode
    future: Future[Any]
    then: Callable[[Episode, Any], Iterator[Done]]


def make_episodes(
    means: Means, attempts: Sequence[Attempt], is_kept: Callable[[str, int], bool], *,
    sampling: EpisodeSampling | None = None,
) -> Iterator[Done]:  # fmt: skip
    """Yield each attempt's members as they are judged; those that are kept already are left out."""
    starts = [
        _Start(attempt, member, 0)
        for attempt in attempts
        for member in range(attempt.num_samples)
        if not is_kept(attempt.group_id, member)
    ]
    wave = _Wave(means, sampling or sampling_of(means.engine), starts)
    try:
        yield from means.watchdog.each(wave.run(), wave.status)
    finally:
        wave.stop()


class _Wave:
    """The episodes that are under way, and those that are to begin."""

    def __init__(self, means: Means, sampling: EpisodeSampling, starts: Sequence[_Start]) -> None:
        self._means, self._sampling, self._limits = means, sampling, means.episodes
        self._starts = deque(starts)
        self._open: set[Episode] = set()
        self._ending: set[Future[None]] = set()
        self._waiting: dict[Future[Any], Episode] = {}
        self._arrivals: queue.SimpleQueue[_Arrival | None] = queue.SimpleQueue()
        """None: a world has gone, and there is room for another."""
        self._speech = speech_of(means.chat)

    def run(self) -> Iterator[Done]:
        """Go on until all episodes have ended."""
        while self._starts or self._open:
            while self._starts and len(self._open) + len(self._ending) < self._limits.max_open:
                self._begin(self._starts.popleft())
            for episode, future, then in self._arrived():
                self._means.watchdog.beat()
                del self._waiting[future]
                yield from then(episode, future.result())
            if self._sampling.is_busy:
                for episode, completion in self._sampling.advance():
                    self._means.watchdog.beat()
                    self._sampled(episode, completion)

    def status(self) -> str:
        """What is under way, in words."""
        num_worlds = len(self._waiting)
        return f"{len(self._open)} episodes, {num_worlds} of them wait for their worlds; {len(self._starts)} to begin"

    def stop(self) -> None:
        """Leave nothing running."""
        self._sampling.close()
        for future in list(self._waiting):
            future.cancel()
        self._means.background.run(_all_stopped([episode.environment for episode in self._open]))
        self._open.clear()
        for future in list(self._ending):
            future.result()

    def _begin(self, start: _Start) -> None:
        domain, task = start.attempt.draw.source.domain, start.attempt.draw.task
        assert isinstance(domain, HasEnvironment)
        if self._means.backend is None:
            raise ConfigError(f"{domain.name} has episodes, and nothing was opened for their worlds to be in")
        episode = Episode(
            attempt=start.attempt, member=start.member, run=start.run, speech=self._speech, tools=domain.tools,
            environment=domain.environment(self._means.backend),
        )  # fmt: skip
        self._open.add(episode)
        seed = start.attempt.seed
        self._wait(episode, episode.environment.reset(task, seed), self._limits.wall_s, self._reset)

    def _arrived(self) -> Iterator[_Arrival]:
        """What has come; waits for it only where nothing is being sampled."""
        blocks = bool(self._waiting or self._ending) and not self._sampling.is_busy
        with suppress(queue.Empty):
            while True:
                arrival = self._arrivals.get(block=blocks)
                blocks = False
                if arrival is not None:
                    yield arrival

    def _wait(
        self,
        episode: Episode,
        work: Awaitable[T],
        wall_s: float,
        then: Callable[[Episode, T | Verdict], Iterator[Done]],
    ) -> None:
        """Have something done in the background, and go on with what comes of it."""
        episode.asked_s = time.monotonic()
        future = self._means.background.submit(_within(work, wall_s, episode.attempt.draw.source.domain.name))
        self._waiting[future] = episode
        future.add_done_callback(
            lambda done: None if done.cancelled() else self._arrivals.put(_Arrival(episode, done, then))
        )

    # The life of an episode, event by event

    def _reset(self, episode: Episode, come: Sequence[Message] | Verdict) -> Iterator[Done]:
        if isinstance(come, Verdict):
            yield from self._judged(episode, come)
            return
        episode.begin(self._means.chat, come)
        num_tokens = self._room(episode)
        if num_tokens < LEAST_TURN:
            raise ConfigError(
                f"task {episode.attempt.draw.task.id!r} begins with {len(episode.token_ids)} tokens; the policy takes "
                f"in {self._means.context}, and may write {self._limits.max_tokens or 'as many'}: no turn has room"
            )
        self._ask(episode)

    def _ask(self, episode: Episode) -> None:
        episode.asked_s = time.monotonic()
        self._sampling.ask(episode, episode.request(min(self._turn_tokens(episode), self._room(episode))))

    def _sampled(self, episode: Episode, completion: Completion) -> None:
        self._act(episode, episode.sampled(completion, self._means.chat.answer(completion.text)))

    def _act(self, episode: Episode, action: Action) -> None:
        left_s = max(LEAST_STEP_S, self._limits.wall_s - (time.monotonic() - episode.started_s))
        self._wait(episode, episode.environment.step(action), left_s, self._stepped)

    def _stepped(self, episode: Episode, come: Observation | Verdict) -> Iterator[Done]:
        if isinstance(come, Verdict) and come.kind != "timeout":
            yield from self._judged(episode, come)
            return
        observation = Observation(text="Out of time.") if isinstance(come, Verdict) else come
        episode.answered(observation)
        if observation.done or episode.is_last:
            self._finish(episode)
            return
        if episode.limit is None:
            episode.limit = self._spent(episode)
        fallback: Fallback | None = episode.limit and self._limits.at_limit.get(episode.limit, "end")
        match fallback:
            case None:
                self._go_on(episode, observation.text)
            case "ask":
                assert episode.limit is not None
                episode.is_last = True
                self._go_on(episode, f"{observation.text}\n{LAST_WORDS.format(limit=WORDS[episode.limit])}")
            case "hand_over" if episode.num_helped < self._most_steps(episode):
                episode.go_on(self._means.chat, observation.text)
                self._get_help(episode)
            case "restore":
                self._finish(episode, restores=True)
            case _:
                self._finish(episode)

    def _go_on(self, episode: Episode, text: str) -> None:
        """Ask for another turn, unless what the policy is told leaves no room for one."""
        episode.go_on(self._means.chat, text)
        if self._room(episode) >= LEAST_TURN:
            self._ask(episode)
            return
        episode.limit = episode.limit or "tokens"
        self._finish(episode)

    def _get_help(self, episode: Episode) -> None:
        helper = self._means.helper
        assert helper is not None, "a recipe with `hand_over` has a helper"
        self._wait(episode, helper(episode.messages), self._limits.wall_s, self._helped)

    def _helped(self, episode: Episode, come: str | Verdict) -> Iterator[Done]:
        if isinstance(come, Verdict):
            yield from self._judged(episode, come)
            return
        self._act(episode, episode.helped(self._means.chat, come))

    def _finish(self, episode: Episode, *, restores: bool = False) -> None:
        wall_s = episode.attempt.draw.task.limits.verify_wall_s
        self._wait(episode, _judgement(episode.environment, restores), wall_s, self._judged)

    def _judged(self, episode: Episode, come: Judgement | Verdict) -> Iterator[Done]:
        """An episode has ended, well or badly."""
        judgement = failed(come) if isinstance(come, Verdict) else come
        verify_s = time.monotonic() - episode.asked_s
        self._end(episode)
        if judgement.verdict.kind in ("infrastructure_error", "timeout") and episode.run + 1 < NUM_RUNS:
            self._starts.appendleft(_Start(episode.attempt, episode.member, episode.run + 1))
            return
        version = self._means.engine.version
        yield Done(episode.attempt, episode.trajectory(judgement, version=version, verify_s=verify_s))

    def _end(self, episode: Episode) -> None:
        """End a world, which goes on counting until it has gone."""
        self._open.discard(episode)
        ending = self._means.background.submit(_all_stopped([episode.environment]))
        self._ending.add(ending)
        ending.add_done_callback(self._ended)

    def _ended(self, ending: Future[None]) -> None:
        self._ending.discard(ending)
        self._arrivals.put(None)

    # What it may spend

    def _most_steps(self, episode: Episode) -> int:
        return self._limits.max_steps or episode.attempt.draw.task.limits.max_steps

    def _turn_tokens(self, episode: Episode) -> int:
        return min(episode.attempt.params.max_new_tokens, episode.attempt.draw.task.limits.max_new_tokens)

    def _room(self, episode: Episode) -> int:
        """How many tokens the policy can still write."""
        room = self._means.context - len(episode.token_ids)
        return min(room, self._limits.max_tokens - episode.num_tokens_sampled) if self._limits.max_tokens else room

    def _spent(self, episode: Episode) -> Limit | None:
        """The limit that is hit after a turn."""
        if len(episode.steps) >= self._most_steps(episode):
            return "steps"
        if time.monotonic() - episode.started_s >= self._limits.wall_s:
            return "wall"
        if episode.num_characters >= self._limits.max_output:
            return "output"
        return "tokens" if self._room(episode) < self._turn_tokens(episode) else None


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


def check_trains(
    domains: Sequence[Domain], limits: EpisodesConfig, *, is_asynchronous: bool, by_turn: bool = False
) -> None:
    """`ConfigError` where stage `rl` cannot train on episodes as the recipe has them."""
    names = sorted({domain.name for domain in domains if isinstance(domain, HasEnvironment)})
    if by_turn and not names:
        raise ConfigError(
            "stage 'rl': credit = 'turn' would do nothing: no domain here has tasks of several turns; leave it out"
        )
    if names and is_asynchronous:
        raise ConfigError(
            f"stage 'rl': max_staleness above 0 knows no episodes, and {', '.join(names)} has tasks of several turns; "
            "set max_staleness = 0"
        )
    if names and "hand_over" in limits.at_limit.values():
        raise ConfigError(
            "stage 'rl': at_limit = 'hand_over' would pay the policy for what its helper does; take 'end', 'ask' or "
            "'restore', and hand over in evaluations"
        )
