"""A step of the asynchronous loop as an update: what it trains on, read from the ledger, and how old that may be.

The loop and a resumed run train by the same code from the same records, and so come to the same weights.
"""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from burnish.core.errors import InvariantError
from burnish.rollout.collect import StepRollouts
from burnish.rollout.groups import Group
from burnish.rollout.stream import Origin
from burnish.rollout.stream_log import Chosen, Ended, Moment, Trained
from burnish.stages.rl_config import Config
from burnish.stages.rl_plan import Plan
from burnish.stages.rl_staleness import AgeLimit, staleness_metrics
from burnish.stages.rl_update import log_step, train
from burnish.stages.session import Session


class Versions:
    """Which version of the weights each step begins from."""

    def __init__(self, moments: Iterable[Moment] = ()) -> None:
        events = [event for moment in moments for event in moment.events]
        self._at = [event.version for event in events if isinstance(event, Trained)]

    @property
    def num_begun(self) -> int:
        """How many steps have begun, the next one among them."""
        return len(self._at)

    def begin(self, step: int, version: int) -> None:
        """A step begins from these weights; `InvariantError` if they are others than when it first began."""
        if step == len(self._at):
            self._at.append(version)
        elif self._at[step] != version:
            raise InvariantError(
                f"step {step} began from version {self._at[step]} of the weights and would now begin from {version}: "
                "the checkpoint and the ledger are not of one run; start again under another name"
            )

    def renumber(self, version: int) -> None:
        """A gate has put other weights in the place of those that the next step was to begin from."""
        self._at[-1] = version

    def step_of(self, version: int) -> int:
        """The last step that begins from weights no newer than these."""
        return bisect_right(self._at, version) - 1

    def largest_lag(self, step: int, max_staleness: int) -> int:
        """How many versions a token may lag in a step."""
        return self._at[step] - self._at[max(0, step - max_staleness)]


def origin_of(session: Session, config: Config, plan: Plan) -> Origin:
    """Where the stage's groups come from: the same draws as in the synchronous loop."""
    collector = plan.collector
    return Origin(
        mixture=collector.mixture, stage=session.position, seed=collector.seed, group_size=config.group_size,
        params=collector.params, own=collector.own,
    )  # fmt: skip


class Trainer:
    """Makes a step's update from what the ledger has of it."""

    def __init__(self, session: Session, config: Config, plan: Plan, versions: Versions) -> None:
        self.session, self.config, self.plan, self.versions = session, config, plan, versions
        self.origin = origin_of(session, config, plan)
        self._why: dict[str, str] = {}
        self._rested_s = time.monotonic()

    def note_end(self, ended: Ended) -> None:
        """Remember why a group was let go, for the metrics of its step."""
        self._why[self.origin.group_id(ended.number)] = ended.why

    def train(self, step: int, chosen: Sequence[Chosen], idle_s: float = 0.0) -> dict[str, float]:
        """Update on these groups, and write the step's metrics."""
        ledger, stage = self.session.ledger, self.session.position
        kept = [self._group(self.origin.group_id(number), set(members)) for number, members in chosen]
        dropped = [self._group(group_id) for group_id in ledger.dropped_in(stage, step)]
        started = time.monotonic()
        rollouts = StepRollouts(kept, [group for group in dropped if group.members])
        whys = Counter(self._why.get(group_id, "unknown") for group_id in ledger.dropped_in(stage, step))
        trained = self.update(step, rollouts) | {f"dropped/{why}": count for why, count in sorted(whys.items())}
        trained["num_groups_without_signal"] = whys["no_signal"]
        if not rollouts.members:  # all prompts were let go before they began
            return {}
        timing = {
            "train_s": time.monotonic() - started, "idle_s": idle_s,
            "sample_s": max(0.0, started - self._rested_s - idle_s),
        }  # fmt: skip
        return log_step(self.session, self.plan, step, rollouts, trained, timing)

    def go_on(self) -> None:
        """The work for the next update begins now."""
        self._rested_s = time.monotonic()

    def update(self, step: int, rollouts: StepRollouts) -> dict[str, float]:
        """Make a step's update."""
        bound, trained = self.config.max_staleness, dict[str, float]()
        if rollouts.kept:
            self.session.note_flight(step, rollouts.members)
            limit = self._age_limit(step, rollouts.kept)
            trained = train(self.session, self.config, self.plan, step, rollouts.kept, age_limit=limit)
            trained |= staleness_metrics(rollouts.kept, step, bound, self.versions.step_of, limit)
        self.versions.begin(step + 1, self.session.policy.version)
        return trained

    def _age_limit(self, step: int, groups: Sequence[Group]) -> AgeLimit:
        limit = AgeLimit(partial(self.versions.largest_lag, step))
        if not self.config.masks_overdue:
            return limit
        bounds = {group.id: self.plan.rules[group.source_name].config.max_staleness for group in groups}
        return limit.masking(self.session.policy.version, bounds)

    def _group(self, group_id: str, members: set[int] | None = None) -> Group:
        kept = [rollout for rollout in self.session.ledger.rollouts(group_id) if rollout.verdict is not None]
        source = self.origin.mixture.draw(number_of(group_id)).source
        chosen = tuple(rollout for rollout in kept if members is None or rollout.member in members)
        return Group(group_id, source.entry.report_name, chosen)


def number_of(group_id: str) -> int:
    """The draw of a group."""
    return int(group_id.split("/")[1])
