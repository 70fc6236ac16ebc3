"""Episodes: attempts of several turns, each in a world of its own, sampled side by side through one engine.

The main thread samples, and what happens in between is `playing`'s. An episode that waits for its world holds up no
other: whichever observation comes first is answered next.

Decisions:
- Finished episodes are recorded one by one by whoever called; one that is cut off leaves nothing and is run again
  whole.
- What is sampled depends on the seed, the member and the turn, but which turns share a forward depends on when worlds
  answer. So samples repeat bit for bit only with an engine that is `exact`, and in worlds that answer alike.
Not covered: going on with an unfinished episode.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from burnish.core.errors import ConfigError
from burnish.core.recipe import EpisodesConfig
from burnish.domains import Domain, HasEnvironment
from burnish.rollout.episode_sampling import EpisodeSampling, sampling_of
from burnish.rollout.means import Attempt, Done, Means
from burnish.rollout.playing import Playing, Start

NUM_RUNS: Final = 3


def make_episodes(
    means: Means, attempts: Sequence[Attempt], is_kept: Callable[[str, int], bool], *,
    sampling: EpisodeSampling | None = None,
) -> Iterator[Done]:  # fmt: skip
    """Yield each attempt's members as they are judged; those that are kept already are left out."""
    sampling = sampling or sampling_of(means.engine)
    playing = Playing(means, sampling, num_runs=NUM_RUNS)
    for attempt in attempts:
        for member in range(attempt.num_samples):
            if not is_kept(attempt.group_id, member):
                playing.begin(Start(attempt, member, 0))
    try:
        yield from means.watchdog.each(_played(means, playing, sampling), playing.status)
    finally:
        playing.stop()


def _played(means: Means, playing: Playing, sampling: EpisodeSampling) -> Iterator[Done]:
    """Go on until all episodes have ended; waits for worlds only where nothing is being sampled."""
    while playing.num_to_come:
        yield from playing.go_on(0.0 if sampling.is_busy else None)
        if sampling.is_busy:
            for episode, completion in sampling.advance():
                means.watchdog.beat()
                playing.sampled(episode, completion)


def check_trains(domains: Sequence[Domain], limits: EpisodesConfig, *, by_turn: bool = False) -> None:
    """`ConfigError` where stage `rl` cannot train on episodes as the recipe has them."""
    names = sorted({domain.name for domain in domains if isinstance(domain, HasEnvironment)})
    if by_turn and not names:
        raise ConfigError(
            "stage 'rl': credit = 'turn' would do nothing: no domain here has tasks of several turns; leave it out"
        )
    if names and "hand_over" in limits.at_limit.values():
        raise ConfigError(
            "stage 'rl': at_limit = 'hand_over' would pay the policy for what its helper does; take 'end', 'ask' or "
            "'restore', and hand over in evaluations"
        )
