"""What an episode may spend, and what is said where that is spent."""

import time
from dataclasses import dataclass
from typing import Final

from burnish.core.recipe import EpisodesConfig, Fallback, Limit
from burnish.core.types import Task
from burnish.rollout.episode import Episode

LEAST_STEP_S: Final = 1.0
LEAST_TURN: Final = 16
"""A last turn of fewer tokens is not worth asking for."""
LAST_WORDS: Final = "This is your last turn: {limit} are used up. Finish now."
_WORDS: Final[dict[Limit, str]] = {
    "steps": "all turns", "tokens": "all tokens", "output": "all observations", "wall": "time and patience"
}  # fmt: skip


def last_words(limit: Limit) -> str:
    """What the policy is told before its last turn."""
    return LAST_WORDS.format(limit=_WORDS[limit])


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the recipe says, and how many tokens the policy takes in."""

    config: EpisodesConfig
    context: int

    def most_steps(self, task: Task) -> int:
        """How many turns an episode has at most."""
        return self.config.max_steps or task.limits.max_steps

    def most_tokens(self, task: Task, of_turn: int) -> int:
        """How many tokens the policy writes in an episode at most, with turns of so many."""
        own = min(self.most_steps(task) * of_turn, self.context)
        return min(own, self.config.max_tokens) if self.config.max_tokens else own

    def turn_tokens(self, episode: Episode) -> int:
        """How many tokens a turn has at most."""
        return min(episode.attempt.params.max_new_tokens, episode.attempt.draw.task.limits.max_new_tokens)

    def room(self, episode: Episode) -> int:
        """How many tokens the policy can still write."""
        room = self.context - len(episode.token_ids)
        return min(room, self.config.max_tokens - episode.num_tokens_sampled) if self.config.max_tokens else room

    def left_s(self, episode: Episode) -> float:
        """How long the world may take for a turn."""
        return max(LEAST_STEP_S, self.config.wall_s - (time.monotonic() - episode.started_s))

    def spent(self, episode: Episode) -> Limit | None:
        """The limit that is hit after a turn."""
        if len(episode.steps) >= self.most_steps(episode.attempt.draw.task):
            return "steps"
        if time.monotonic() - episode.started_s >= self.config.wall_s:
            return "wall"
        if episode.num_characters >= self.config.max_output:
            return "output"
        return "tokens" if self.room(episode) < self.turn_tokens(episode) else None

    def fallback(self, limit: Limit | None) -> Fallback | None:
        """What happens at a limit; None at none."""
        return limit and self.config.at_limit.get(limit, "end")
