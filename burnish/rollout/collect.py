"""Collect the groups of one training step, with refill, and account for each in the ledger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.seeds import derive
from burnish.core.types import Trajectory
from burnish.engine.types import SamplingParams
from burnish.rollout.attempts import Attempt, Means, make_attempts
from burnish.rollout.groups import Group
from burnish.rollout.interactions import Budget, most_of_one
from burnish.rollout.mixture import Draw, Mixture


class StepRollouts(NamedTuple):
    """The groups that train, and those without signal."""

    kept: list[Group]
    dropped: list[Group]

    @property
    def members(self) -> list[Trajectory]:
        """Every attempt of the step, kept or not."""
        return [member for group in [*self.kept, *self.dropped] for member in group.members]


class Sampling(NamedTuple):
    """How a prompt is sampled."""

    group_size: int
    params: SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """Collects for one stage. Which draws a step makes depends on the ledger and on rewards alone.

    `own` says how tasks reported under a name are sampled, where not by `group_size` and `params`. `is_wanted` says
    which groups train; without it those whose members scored differently. What the `budget` does not hold is not begun.
    """

    means: Means
    ledger: Ledger
    mixture: Mixture
    stage: int
    seed: int
    group_size: int
    params: SamplingParams
    own: Mapping[str, Sampling] = field(default_factory=dict[str, Sampling])
    is_wanted: Callable[[Group], bool] = lambda group: group.has_signal
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        if not self.params.is_trainable:
            raise ConfigError(
                f"samples drawn with {self.params} cannot train: their log-probabilities are not those of "
                "softmax(logits / temperature), which the learner computes; set a temperature above 0 and nothing else"
            )

    def collect(self, step: int, first_draw: int, *, num_prompts: int, max_draws: int) -> StepRollouts:
        """Sample until `num_prompts` groups are wanted, `max_draws` prompts were tried, or the budget is used up."""
        rollouts = StepRollouts([], [])
        num_drawn = 0
        while (wanted := min(num_prompts - len(rollouts.kept), max_draws - num_drawn)) > 0:
            draws = self._affordable([self.mixture.draw(first_draw + num_drawn + i) for i in range(wanted)])
            if not draws:
                break
            num_drawn += len(draws)
            for group in self._sample(step, draws):
                self.budget.spend(group.members)
                (rollouts.kept if self.is_wanted(group) else rollouts.dropped).append(group)
        self.ledger.mark_ready(group.id for group in rollouts.kept)
        self.ledger.mark_dropped(group.id for group in rollouts.dropped)
        return rollouts

    def cost(self, draw: Draw) -> int:
        """The most interactions that a draw's group can take."""
        return self._sampling(draw).group_size * most_of_one(draw, self.means.episodes)

    def _affordable(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        return draws[: self.budget.fitting([self.cost(draw) for draw in draws])]

    def _sampling(self, draw: Draw) -> Sampling:
        return self.own.get(draw.source.entry.report_name, Sampling(self.group_size, self.params))

    def _sample(self, step: int, draws: Sequence[Draw]) -> list[Group]:
        attempts = [self._attempt(draw) for draw in draws]
        for attempt in attempts:
            self.ledger.issue(self.stage, step, attempt.group_id, attempt.draw.task.id, attempt.draw.task.prompt_hash)
        kept = {a.group_id: {member.member: member for member in self.ledger.rollouts(a.group_id)} for a in attempts}
        if any(len(kept[attempt.group_id]) < attempt.num_samples for attempt in attempts):
            for attempt, trajectory in make_attempts(self.means, attempts, lambda group, member: member in kept[group]):
                self.ledger.record(trajectory)
                kept[attempt.group_id][trajectory.member] = trajectory
        return [self._group(attempt, kept[attempt.group_id]) for attempt in attempts]

    def _attempt(self, draw: Draw) -> Attempt:
        group_id = f"{self.stage}/{draw.number:07d}"
        group_size, params = self._sampling(draw)
        return Attempt(
            group_id=group_id, draw=draw, seed=derive(self.seed, group_id), num_samples=group_size, params=params
        )

    def _group(self, attempt: Attempt, members: dict[int, Trajectory]) -> Group:
        in_order = tuple(members[number] for number in range(attempt.num_samples))
        return Group(attempt.group_id, attempt.draw.source.entry.report_name, in_order)
