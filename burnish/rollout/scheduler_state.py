"""All that a scheduler knows: versions, outstanding groups, what waits, and what is still to be told.

Whatever changes it stands in three files: `scheduler_admission` (prompts become groups, and their members start),
`scheduler_endings` (members and groups end), `scheduler` (what a driver tells and asks). Here is what all three need:
the phases that members go through with the counts that follow from them, and the state as JSON.
"""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from burnish.rollout.concurrency import Limit
from burnish.rollout.scheduler_batches import BatchQueue
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.scheduler_groups import IN_FLIGHT, OPEN, Account, Group
from burnish.rollout.scheduler_intake import Intake
from burnish.rollout.scheduler_starts import StartQueue
from burnish.rollout.scheduler_types import Decision, Ended, Phase, Start, Ticket

_NOTHING = Decision()
_NUMBERS = (
    "now_s", "moved_s", "version", "made", "engine_version", "is_closed", "told_to_load", "num_admitted",
    "num_resolved", "num_ended_since_batch",
)  # fmt: skip


class State:
    """See the module's docstring."""

    def __init__(self, config: SchedulerConfig, intake: Intake, *, first_version: int) -> None:
        self.config, self.intake = config, intake
        self.account: Callable[[str], Account] = intake.account
        """What a domain has taken and shown."""
        self.starts = StartQueue(config.batch_groups)
        self.batches = BatchQueue(config)
        self.groups: dict[str, Group] = {}
        self.live_ids: set[str] = set()
        """Of all groups that were offered and have not ended."""
        self.deadlines: list[tuple[float, str]] = []
        self.now_s = self.moved_s = -math.inf
        self.version = first_version
        """The next training step."""
        self.made = first_version
        """The newest weights that the learner has made."""
        self.engine_version = first_version
        """The weights that the engines sample from."""
        self.last_version = math.inf if config.num_batches is None else config.num_batches
        self.capacity = self.find_capacity()
        self.num_spare = round(config.batch_groups * (config.max_draws_factor - 1))
        self.is_closed = self.told_to_load = False
        self.num_admitted = self.num_resolved = self.num_ended_since_batch = 0
        self.limit = Limit(float(config.concurrency.most), -math.inf)
        self.num_in: dict[Phase, int] = {"pending": 0, "sampling": 0, "paused": 0, "judging": 0}
        self.cut: list[Ticket] = []
        self.pause: list[Ticket] = []
        self.restarted: list[str] = []
        self.ended: list[Ended] = []
        self.notices: list[str] = []

    def at(self, now_s: float) -> None:
        """It is so late."""
        assert now_s >= self.now_s, f"time went back from {self.now_s} to {now_s}"
        self.now_s = now_s

    def bound(self, group: Group) -> int:
        """How many versions its tokens may lag."""
        return self.intake.grouping(group.prompt.domain).max_staleness

    @property
    def is_held(self) -> bool:
        """Whether tokens sampled now could not train any more, or the engines must run empty for new weights."""
        finishes = self.config.on_weights == "finish" and self.made > self.engine_version
        return finishes or self.engine_version + self.config.max_staleness < self.version

    def find_capacity(self) -> int:
        """How many groups may be outstanding (`scheduler` says why). Changes with versions alone."""
        num_batches = min(self.engine_version + self.config.max_staleness + 1, self.last_version) - self.version
        if num_batches <= 0:
            return 0
        size = self.config.batch_groups
        return int(num_batches) * size + math.ceil(size * self.config.oversample)

    def enter(self, group: Group, index: int, phase: Phase, now_s: float) -> None:
        """Move a member to a phase, and keep all counts that depend on phases."""
        member = group.members[index]
        before, member.phase, member.since_s = member.phase, phase, now_s
        if before in OPEN:
            self.num_in[before] -= 1
            group.num_open -= 1
        if phase in OPEN:
            self.num_in[phase] += 1
            group.num_open += 1
        change = (phase in IN_FLIGHT) - (before in IN_FLIGHT)
        if change:
            self.account(group.prompt.domain).in_flight += change
        if change < 0 or phase == "cut":
            self.starts.unpark(group.prompt.domain)

    def tell(self, starts: Sequence[Start], *, loads: bool) -> Decision:
        """What was decided since this was asked last."""
        if not (starts or loads or self.cut or self.pause or self.restarted or self.ended or self.notices):
            return _NOTHING
        self.moved_s = self.now_s
        decision = Decision(
            cut=tuple(self.cut), pause=tuple(self.pause), restarted=tuple(self.restarted), ended=tuple(self.ended),
            load_weights=loads, start=tuple(starts), notices=tuple(self.notices),
        )  # fmt: skip
        for told in (self.cut, self.pause, self.restarted, self.ended, self.notices):
            told.clear()
        return decision

    def to_json(self) -> dict[str, Any]:
        """All that decides what comes next, as plain JSON."""
        return {
            **{name: _finite(getattr(self, name)) for name in _NUMBERS},
            "limit": [self.limit.value, _finite(self.limit.at_s)],
            "intake": self.intake.to_json(),
            "groups": [group.to_json() for group in self.batches.groups()],
            **{name: [list(told) for told in getattr(self, name)] for name in ("cut", "pause", "ended")},
            "restarted": list(self.restarted),
            "notices": list(self.notices),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `to_json` gave."""
        for name in _NUMBERS:
            setattr(self, name, -math.inf if state[name] is None else state[name])
        self.capacity = self.find_capacity()
        value, at_s = state["limit"]
        self.limit = Limit(value, -math.inf if at_s is None else at_s)
        self.intake.restore(state["intake"])
        for group in map(Group.from_json, state["groups"]):
            self._restore_group(group)
        self.live_ids = {*self.groups, *self.intake.group_ids()}
        self.cut, self.pause = ([Ticket(*ticket) for ticket in state[name]] for name in ("cut", "pause"))
        self.ended = [Ended(*ended) for ended in state["ended"]]
        self.restarted, self.notices = list(state["restarted"]), list(state["notices"])

    def _restore_group(self, group: Group) -> None:
        self.groups[group.prompt.group_id] = group
        self.batches.admit(group)
        self.starts.admit(group)
        for index, member in enumerate(group.members):
            if member.phase in OPEN:
                self.num_in[member.phase] += 1
            if group.version is not None and member.phase in ("pending", "paused"):
                self.starts.queue_as_before(group, index)
        if group.prompt.deadline_s is not None:
            heapq.heappush(self.deadlines, (group.prompt.deadline_s, group.prompt.group_id))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
