"""What a simulated run came to, and the time that no scheduler could have beaten.

The bound. Given which groups the batches consist of, and that weights are loaded as often as they were, no
order of work ends before any of these times. Each ends with the last training step and the loading of its
weights, where the simulation does.

* *engines*: the tokens of all groups that trained, or could not have been avoided (no signal, too few
  verdicts), at the most tokens a second that all engines reach with every slot full, and the time for which
  all of them stood still before the last batch began (loading, or because the learner had their place): no
  token is sampled then, and each of those tokens was sampled before.
* *learner*: all training steps, one after the other, after the fastest way to the first batch.
* *sandboxes*: the seconds of all verdicts of those groups, with every sandbox busy.
* *staleness*: a group of batch k begins when the weights of version k - S or later are there, thus after the
  step k - S - 1 is over and they were loaded; the fastest way to batch k, and step k follow. Every chain of steps
  S + 1 apart adds those up, so that with S = 0 nothing overlaps.

The fastest way to a batch is the longest of two: its member that takes longest, alone on an engine, and its verdict at
once; and all its members on all engines, by a scheduler that knows every length beforehand (`bounds`).

The bound is the largest. It holds for the simulated world; a scheduler that changes *which* groups train
(cutting long ones) has less to do and its own bound.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from burnish.plan.bounds import least_sampling_s
from burnish.plan.cluster import Cluster
from burnish.plan.fleet import Fleet
from burnish.plan.world import Fate
from burnish.rollout.scheduler_types import BatchPlan, Ended, Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Shares are of the whole time, `0 ... end_s`."""

    end_s: float
    num_batches: int
    num_short_batches: int
    num_groups_trained: int
    num_rollouts: int
    tokens_trained: int
    tokens_sampled: float
    wasted_share: float
    """Of the sampled tokens, those that neither trained nor belonged to a group without signal."""
    learner_busy: float
    engines_busy: float
    """Slot-seconds in use."""
    sandboxes_busy: float
    step_s: float
    """Mean time from batch to batch."""
    staleness: dict[int, int]
    """Groups by the versions that their oldest token lagged."""
    mean_length_trained: float
    mean_length_sampled: float
    ended: dict[str, int]
    bound_s: float
    bound_by: str

    @property
    def efficiency(self) -> float:
        """The bound by the time that it took: 1 cannot be beaten."""
        return self.bound_s / self.end_s if self.end_s else 1.0

    @property
    def tokens_per_s(self) -> float:
        """Trained tokens a second."""
        return self.tokens_trained / self.end_s if self.end_s else 0.0


class _Member(NamedTuple):
    length: int
    answer: int | None
    verify_s: float


@dataclass(slots=True)
class _Batch:
    begin_s: float
    stood_s: float
    """How long the engines had stood still before."""
    least_s: float
    """The fastest way to it from nothing."""
    took_s: float = 0.0


@dataclass(slots=True)
class Tally:
    """Counts while a simulation runs."""

    cluster: Cluster
    sandbox_s: float = 0.0
    sandbox_repeated_s: float = 0.0
    learner_s: float = 0.0
    num_wasted: int = 0
    tokens_trained: int = 0
    tokens_unavoidable: int = 0
    num_trained: int = 0
    num_short: int = 0
    num_members: int = 0
    num_members_trained: int = 0
    members: defaultdict[str, dict[int, _Member]] = field(
        default_factory=lambda: defaultdict[str, dict[int, _Member]](dict)
    )
    sum_lengths: int = 0
    staleness: Counter[int] = field(default_factory=Counter[int])
    ends: Counter[str] = field(default_factory=Counter[str])
    batches: list[_Batch] = field(default_factory=list[_Batch])

    def sampled(self, ticket: Ticket, num_tokens: int, fate: Fate) -> None:
        """A member was sampled to its end."""
        self.members[ticket.group_id][ticket.member] = _Member(num_tokens, fate.answer, fate.verify_s)
        self.num_members += 1
        self.sum_lengths += num_tokens

    def judged(self, verify_s: float, *, is_repeated: bool) -> None:
        """A sandbox has judged an answer, which another order of work might have spared if it was judged before."""
        self.sandbox_s += verify_s
        self.sandbox_repeated_s += verify_s if is_repeated else 0.0

    def wasted(self, num_tokens: int) -> None:
        """Tokens of an attempt that was cut or died."""
        self.num_wasted += num_tokens

    def restarted(self, group_id: str) -> None:
        """What the group had sampled is void."""
        self.num_wasted += self._pop_tokens(group_id)

    def ended(self, ended: Ended) -> None:
        """A group will not train."""
        self.ends[ended.why] += 1
        num_tokens = self._pop_tokens(ended.group_id)
        if ended.why in ("no_signal", "failed"):
            self.tokens_unavoidable += num_tokens
        else:
            self.num_wasted += num_tokens

    def _pop_tokens(self, group_id: str) -> int:
        return sum(member.length for member in self.members.pop(group_id, {}).values())

    def batch(self, plan: BatchPlan, now_s: float, stood_s: float) -> int:
        """A batch trains; returns its tokens."""
        lengths, alone_s = list[int](), 0.0
        for group in plan.groups:
            members = self.members.pop(group.group_id)
            trained = [members.pop(number) for number in group.members]
            lengths += [member.length for member in trained]
            alone_s = max(alone_s, self._alone_s(trained))
            self.num_members_trained += len(trained)
            self.num_wasted += sum(member.length for member in members.values())
            self.staleness[plan.version - group.oldest_version] += 1
        self.tokens_trained += sum(lengths)
        self.num_trained += len(plan.groups)
        self.num_short += plan.is_short
        least_s = max(alone_s, least_sampling_s(lengths, self.cluster.engines)) if lengths else 0.0
        self.batches.append(_Batch(now_s, stood_s, least_s))
        return sum(lengths)

    def _alone_s(self, members: Sequence[_Member]) -> float:
        """The least time until the last of them has its verdict, each alone on an engine and judged at once.

        An answer that several gave is judged once, at the earliest when the shortest of them is there.
        """
        first: dict[int, _Member] = {}
        for member in sorted(members, key=lambda member: member.length):
            if member.answer is not None:
                first.setdefault(member.answer, member)
        judged = [member for member in members if member.answer is None or first[member.answer] is member]
        token_s = self.cluster.engines.token_s
        longest_s = max(member.length for member in members) * token_s
        return max(longest_s, *(member.length * token_s + member.verify_s for member in judged))

    def learned(self, took_s: float) -> None:
        """The step of the last batch takes so long."""
        self.batches[-1].took_s = took_s
        self.learner_s += took_s

    def outcome(self, end_s: float, fleet: Fleet, *, is_over: bool) -> Outcome:
        """Sum up; `is_over` says that the last weights are loaded, else time was up before."""
        num_slots = self.cluster.engines.num * self.cluster.engines.slots
        bounds = self.bounds(is_over=is_over)
        bound_by = max(bounds, key=lambda name: bounds[name])
        begins = [batch.begin_s for batch in self.batches]
        return Outcome(
            end_s=end_s,
            num_batches=len(self.batches),
            num_short_batches=self.num_short,
            num_groups_trained=self.num_trained,
            num_rollouts=self.num_members,
            tokens_trained=self.tokens_trained,
            tokens_sampled=fleet.num_tokens,
            wasted_share=self.num_wasted / max(fleet.num_tokens, 1),
            learner_busy=min(self.learner_s / end_s, 1.0) if end_s else 0.0,
            engines_busy=fleet.busy_s / (num_slots * end_s) if end_s else 0.0,
            sandboxes_busy=self.sandbox_s / (self.cluster.num_sandboxes * end_s) if end_s else 0.0,
            step_s=(begins[-1] - begins[0]) / (len(begins) - 1) if len(begins) > 1 else end_s,
            staleness=dict(sorted(self.staleness.items())),
            mean_length_trained=self.tokens_trained / max(self.num_members_trained, 1),
            mean_length_sampled=self.sum_lengths / max(self.num_members, 1),
            ended=dict(sorted(self.ends.items())),
            bound_s=bounds[bound_by],
            bound_by=bound_by,
        )

    def bounds(self, *, is_over: bool) -> dict[str, float]:
        """The least time by each of the four arguments of the module's docstring."""
        if not self.batches:
            return {"engines": 0.0}
        engines, last = self.cluster.engines, self.batches[-1]
        least_sandbox_s = self.sandbox_s - self.sandbox_repeated_s
        after_last_s = last.took_s + engines.load_weights_s if is_over else 0.0
        before_last_s = {
            "engines": (self.tokens_trained + self.tokens_unavoidable) / engines.best_rate + last.stood_s,
            "learner": self.batches[0].least_s + sum(batch.took_s for batch in self.batches[:-1]),
            "sandboxes": least_sandbox_s / self.cluster.num_sandboxes if self.waits_for_all else 0.0,
            "staleness": self._chain_s(),
        }
        return {name: before_s + after_last_s for name, before_s in before_last_s.items()}

    @property
    def waits_for_all(self) -> bool:
        """Whether each verdict that was found was needed."""
        return self.cluster.scheduler.overdue == "wait" and not self.cluster.scheduler.extra_members

    def _chain_s(self) -> float:
        """The least time at which the last step can begin."""
        apart, engines = self.cluster.scheduler.max_staleness + 1, self.cluster.engines
        begins_s = [0.0] * len(self.batches)
        ends_s = [0.0] * len(self.batches)
        for number, batch in enumerate(self.batches):
            sampling_s = ends_s[number - apart] + engines.load_weights_s if number >= apart else 0.0
            before_s = ends_s[number - 1] if number else 0.0
            begins_s[number] = max(sampling_s + batch.least_s, before_s)
            ends_s[number] = begins_s[number] + batch.took_s
        return begins_s[-1]
