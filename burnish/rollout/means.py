"""What attempts are made of: what to try, with which means, and what came of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from burnish.chat.template import Chat
from burnish.core.recipe import EpisodesConfig
from burnish.core.types import Message, Trajectory
from burnish.engine.types import Engine, SamplingParams
from burnish.rollout.judge import Judge
from burnish.rollout.mixture import Draw
from burnish.runtime.local import Background
from burnish.runtime.watchdog import Watchdog
from burnish.sandbox import Backend

NO_LIMIT = 1 << 30
"""As `max_new_tokens`: the tasks' own limits hold."""
Helper = Callable[[Sequence[Message]], Awaitable[str]]
"""Says what a stronger policy would say next."""


class Attempt(NamedTuple):
    """What to try: `num_samples` replies to one task."""

    group_id: str
    draw: Draw
    seed: int
    num_samples: int
    params: SamplingParams


class Done(NamedTuple):
    """One finished, judged reply, or episode."""

    attempt: Attempt
    trajectory: Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What attempts need: a policy that samples, and a judge; and for episodes, where their worlds are made."""

    engine: Engine
    chat: Chat
    judge: Judge
    background: Background
    verify_metrics: Callable[[], Mapping[str, float]] = dict
    """What verdicts have cost and come to since the last call."""
    verify_status: Callable[[], str] = str
    """What is being judged at this moment, in words."""
    watchdog: Watchdog = field(default_factory=lambda: Watchdog(print))
    backend: Backend | None = None
    episodes: EpisodesConfig = field(default_factory=EpisodesConfig)
    context: int = NO_LIMIT
    """How many tokens the policy takes in."""
    helper: Helper | None = None
    """Who takes over where the recipe says `hand_over`."""
