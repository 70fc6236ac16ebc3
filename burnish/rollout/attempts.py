"""Attempts: sample replies, have each judged while the next are being sampled, keep each as it is done.

Decision: on resume, a wave with missing members is sampled again *whole*, because the bits of a sample
may depend on what is computed beside it; members that are already kept win over the new ones. So a
resumed run trains on the same bits as an unbroken one.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import NamedTuple

from burnish.chat.template import Chat
from burnish.core.types import Completion, Trajectory, Verdict, version_changes
from burnish.domains import HasEnvironment
from burnish.engine.types import Finished, Request
from burnish.rollout.episodes import make_episodes
from burnish.rollout.means import NO_LIMIT as NO_LIMIT
from burnish.rollout.means import Attempt as Attempt
from burnish.rollout.means import Done as Done
from burnish.rollout.means import Means as Means


def make_attempts(means: Means, attempts: Sequence[Attempt], is_kept: Callable[[str, int], bool]) -> Iterator[Done]:
    """Yield each attempt's members as they are judged; those that are kept already are left out.

    Tasks of one reply come first, then those of several turns: an engine that steps is not asked for both at once.
    """
    is_episode = [isinstance(attempt.draw.source.domain, HasEnvironment) for attempt in attempts]
    replies = [attempt for attempt, several in zip(attempts, is_episode, strict=True) if not several]
    if replies:
        yield from _make_replies(means, replies, is_kept)
    if len(replies) < len(attempts):
        episodes = [attempt for attempt, several in zip(attempts, is_episode, strict=True) if several]
        yield from make_episodes(means, episodes, is_kept)


def _make_replies(means: Means, attempts: Sequence[Attempt], is_kept: Callable[[str, int], bool]) -> Iterator[Done]:
    pending: dict[Future[Verdict], _Asked] = {}
    samples = _timed(means.engine.sample([as_request(means.chat, attempt) for attempt in attempts]))
    for finished, sample_s in means.watchdog.each(samples, lambda: f"samples of {len(attempts)} prompts"):
        attempt = attempts[finished.request]
        if not is_kept(attempt.group_id, finished.sample):
            trajectory = as_trajectory(
                means.chat, attempt, finished.completion, member=finished.sample, sample_s=sample_s
            )
            answer = means.chat.answer(trajectory.reply)
            verdict = means.judge(attempt.draw.source.domain, attempt.draw.task, answer)
            future = means.background.submit(verdict)
            pending[future] = _Asked(attempt, trajectory, _stopwatch(future))
        yield from _judged(pending, [future for future in pending if future.done()])
    yield from means.watchdog.each(_judged(pending, list(pending)), means.verify_status)


def as_request(chat: Chat, attempt: Attempt) -> Request:
    """What an engine is asked for."""
    return Request(
        prompt_ids=chat.prompt_ids(attempt.draw.task.messages),
        seed=attempt.seed,
        num_samples=attempt.num_samples,
        params=replace(
            attempt.params, max_new_tokens=min(attempt.params.max_new_tokens, attempt.draw.task.limits.max_new_tokens)
        ),
    )


def _timed(samples: Iterable[Finished]) -> Iterator[tuple[Finished, float]]:
    started = time.monotonic()
    for finished in samples:
        yield finished, time.monotonic() - started


def as_trajectory(
    chat: Chat, attempt: Attempt, completion: Completion, *, member: int, sample_s: float = 0.0
) -> Trajectory:
    """What was sampled, as a record without a verdict."""
    prompt_ids, versions = chat.prompt_ids(attempt.draw.task.messages), completion.versions
    return Trajectory(
        group_id=attempt.group_id,
        member=member,
        task_id=attempt.draw.task.id,
        prompt_hash=attempt.draw.task.prompt_hash,
        seed=attempt.seed,
        token_ids=prompt_ids + completion.token_ids,
        was_sampled=(False,) * len(prompt_ids) + (True,) * len(completion.token_ids),
        logprobs=(0.0,) * len(prompt_ids) + completion.logprobs,
        reply=completion.text,
        stop_reason=completion.stop_reason,
        oldest_version=min(versions),
        newest_version=max(versions),
        sample_s=sample_s,
        version_changes=version_changes(range(len(prompt_ids), len(prompt_ids) + len(versions)), versions),
    )


class _Asked(NamedTuple):
    attempt: Attempt
    trajectory: Trajectory
    verify_s: Callable[[], float]


def _stopwatch(future: Future[Verdict]) -> Callable[[], float]:
    """How long a verdict took, to be asked once it is there; it may be taken much later."""
    started, ended = time.monotonic(), list[float]()
    future.add_done_callback(lambda _: ended.append(time.monotonic()))
    return lambda: (ended[0] if ended else time.monotonic()) - started


def _judged(pending: dict[Future[Verdict], _Asked], futures: Iterable[Future[Verdict]]) -> Iterator[Done]:
    for future in futures:
        verdict = future.result()
        asked = pending.pop(future)
        yield Done(asked.attempt, replace(asked.trajectory, verdict=verdict, verify_s=asked.verify_s()))
