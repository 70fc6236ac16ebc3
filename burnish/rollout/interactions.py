"""Interactions with an environment: what they are, how many an attempt may take, and a budget that is never exceeded.

An interaction is a turn that an environment has answered; a reply that was judged is one. What may begin is decided
before it begins, by the most that it could take, so that a budget is kept whatever the episodes turn out to be; what
they have left over is counted back. Not covered: turns that leave no record, namely of an episode that the machinery
lost and ran again, and of one that was under way when a run was killed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from burnish.core.recipe import EpisodesConfig
from burnish.core.types import Trajectory
from burnish.domains import HasEnvironment
from burnish.rollout.mixture import Draw


def num_of(members: Iterable[Trajectory]) -> int:
    """How many interactions these attempts were."""
    return sum(max(1, len(member.steps)) for member in members)


def most_of_one(draw: Draw, limits: EpisodesConfig) -> int:
    """The most that one attempt at a task can take: its turns, and a last one where a limit asks for it."""
    if not isinstance(draw.source.domain, HasEnvironment):
        return 1
    is_asked = "ask" in limits.at_limit.values()
    return (limits.max_steps or draw.task.limits.max_steps) + is_asked


@dataclass(slots=True, kw_only=True)
class Budget:
    """What a stage may still spend; without `most`, as much as it likes."""

    most: int | None = None
    spent: int = 0

    def fitting(self, costs: Sequence[int]) -> int:
        """How many of these, in their order, may begin at once if each takes the most that it can."""
        if self.most is None:
            return len(costs)
        left = self.most - self.spent
        for number, cost in enumerate(costs):
            left -= cost
            if left < 0:
                return number
        return len(costs)

    def spend(self, members: Iterable[Trajectory]) -> None:
        """Count attempts that have ended."""
        self.spent += num_of(members)
        assert self.most is None or self.spent <= self.most, "no attempt takes more than the most that it can"
