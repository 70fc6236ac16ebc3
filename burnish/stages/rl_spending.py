"""What the steps of stage `rl` cost and show: interactions are counted and limited, and later draws are aimed by them.

Decisions:
- A step's row of the ledger is written once its groups are judged, before it trains; a row that is there stays. What is
  spent before a step is the sum of the rows of the steps before it, so a resumed run that repeats steps from kept
  replies counts them once, and decides what fits as the unbroken run did.
- An aim holds from the first draw that was not made when its step was judged. A draw is a function of the seed, its
  number, the stored histories and these rows.
"""

from collections.abc import Sequence
from statistics import fmean

from burnish.core.errors import ConfigError
from burnish.core.ledger import Spent
from burnish.core.types import Task
from burnish.rollout.aim import Aim, AimConfig, Shown, shown
from burnish.rollout.collect import Collector, StepRollouts
from burnish.rollout.groups import Group
from burnish.rollout.interactions import num_of
from burnish.rollout.mixture import Weigh
from burnish.stages.histories import History
from burnish.stages.session import Session


class Spending:
    """See the module's docstring."""

    def __init__(
        self, session: Session, collector: Collector, aim: AimConfig | None, histories: History | None
    ) -> None:
        self._session, self._collector, self._config = session, collector, aim
        self._aim = Aim(aim, collector.group_size) if aim else None
        self._to_come = session.ledger.spent(session.position)
        """Rows that the aim has not heard of."""
        self._interactions = {row.step: row.interactions for row in self._to_come}
        if aim and self._aim:
            stored = [shown(one.group, one.task, aim) for one in histories.placed] if histories else []
            self._aim.learn(one for one in stored if one is not None)
            collector.mixture.aim(self._weigh_for)

    def goes_on(self, step: int, first_draw: int) -> bool:
        """Whether the budget holds another group before a step; says so where it does not."""
        budget = self._collector.budget
        budget.spent = sum(number for earlier, number in self._interactions.items() if earlier < step)
        if budget.most is None:
            return True
        cost = self._collector.cost(self._collector.mixture.draw(first_draw))
        if budget.fitting([cost]):
            return True
        told = f"{budget.spent} of max_interactions = {budget.most} are used"
        if not step:
            raise ConfigError(f"stage 'rl': {told}, and the first group may take {cost}; raise max_interactions")
        self._session.console.print(
            f"{self._session.stage_name}: {told} after {step} steps, and another group may take {cost}: the stage ends",
            markup=False,
        )
        return False

    def observe(self, step: int, rollouts: StepRollouts) -> dict[str, float]:
        """Note a step's groups, and aim by them; returns the step's metrics of it."""
        groups = [*rollouts.kept, *rollouts.dropped]
        told = self._terms(groups)
        if step not in self._interactions:
            self._note(step, groups)
        return {"interactions_spent": float(self._collector.budget.spent), **told}

    def result(self) -> dict[str, int]:
        """What the stage has taken, where its steps were counted."""
        return {"interactions": sum(self._interactions.values())} if self._interactions else {}

    def _note(self, step: int, groups: Sequence[Group]) -> None:
        ledger, stage = self._session.ledger, self._session.position
        seen = [one for group in groups if (one := self._shown(group)) is not None]
        row = Spent(
            step, num_of(member for group in groups for member in group.members),
            max(self._collector.mixture.num_made, ledger.num_draws(stage)), [one.to_json() for one in seen],
        )  # fmt: skip
        ledger.note_spent(stage, row)
        self._interactions[step] = row.interactions
        self._to_come.append(row)

    def _weigh_for(self, number: int) -> Weigh:
        """The weights that hold for a draw; draws are asked for in the order of their numbers."""
        assert self._aim is not None
        while self._to_come and self._to_come[0].first_draw <= number:
            self._aim.learn(Shown.from_json(one) for one in self._to_come.pop(0).shown)
        return self._aim.weight

    def _shown(self, group: Group) -> Shown | None:
        return shown(group, self._task_of(group), self._config) if self._config else None

    def _task_of(self, group: Group) -> Task:
        return self._collector.mixture.draw(int(group.id.split("/")[1])).task

    def _terms(self, groups: Sequence[Group]) -> dict[str, float]:
        """The mean of each term over a step's tasks, as they were known when they were drawn."""
        if self._aim is None or not groups:
            return {}
        aim = self._aim
        asked = [(group.source_name, self._task_of(group)) for group in groups]
        terms = [aim.terms(name, task) for name, task in asked]
        return {
            "aim/known": fmean(aim.past(name, task).num > 0 for name, task in asked),
            "aim/weight": fmean(aim.weight(name, task) for name, task in asked),
            **{f"aim/{name}": fmean(of[name] for of in terms) for name in terms[0]},
        }
