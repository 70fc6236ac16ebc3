"""The groups of a run as a simulated domain has them: tokens, answers, and what judging an answer took and came to.

Members with equal replies gave one answer, whose time is the mean of those that were judged for it: `Verdict.took_s`,
without the time in the queue, which the simulator has of its own. Where no verdict of an answer was paid for in its
group, it was known from before (no time), or joined to an equal one that reads differently (as long as it waited).

Decisions:
- Groups of which members are missing are left out: what was cut, or was left at the stage's end, is what took long.
- Of very many groups, as many as are kept are taken evenly over their order.
Not covered: episodes of several turns whose last turns are equal share no verdict here.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from statistics import fmean

from burnish.core.types import Trajectory
from burnish.plan.cluster import Answer, DomainLoad, MeasuredGroup, MeasuredMember
from burnish.rollout.scheduler_config import SchedulerConfig

MOST_GROUPS = 2000


def domain_loads(groups: Sequence[Sequence[Trajectory]], scheduler: SchedulerConfig) -> list[DomainLoad]:
    """What each domain was like."""
    by_domain: defaultdict[str, list[Sequence[Trajectory]]] = defaultdict(list)
    for members in groups:
        by_domain[members[0].task_id.split("/")[0]].append(members)
    return [_load(name, several, scheduler) for name, several in sorted(by_domain.items())]


def _load(name: str, groups: Sequence[Sequence[Trajectory]], scheduler: SchedulerConfig) -> DomainLoad:
    whole = [members for members in groups if len(members) >= scheduler.grouping(name).group_size] or groups
    kept = whole[:: -(-len(whole) // MOST_GROUPS)]
    return DomainLoad(
        name=re.sub(r"[^\w.-]", "_", name),
        weight=float(len(groups)),
        groups=[_measured(members) for members in kept],
        keeps_verdicts=any(member.verdict is not None and member.verdict.from_cache for member in _all(groups)),
        max_tokens=max(member.num_sampled for member in _all(groups)),
    )


def _all(groups: Sequence[Sequence[Trajectory]]) -> Iterator[Trajectory]:
    return (member for members in groups for member in members)


def _measured(members: Sequence[Trajectory]) -> MeasuredGroup:
    by_answer: defaultdict[Hashable, list[Trajectory]] = defaultdict(list)
    for member in members:
        by_answer[member.member if member.steps else member.reply].append(member)
    numbers = {id(member): number for number, several in enumerate(by_answer.values()) for member in several}
    return MeasuredGroup(
        answers=[_answer(several) for several in by_answer.values()],
        members=[MeasuredMember(member.num_sampled, numbers[id(member)]) for member in members],
    )


def _answer(members: Sequence[Trajectory]) -> Answer:
    verdicts = [member.verdict for member in members if member.verdict is not None]
    paid_s = [verdict.took_s for verdict in verdicts if verdict.took_s]
    waited_s = [member.verify_s for member in members if member.verdict is None or not member.verdict.from_cache]
    return Answer(
        verify_s=fmean(paid_s or waited_s or [0.0]),
        score=next((verdict.score for verdict in verdicts if verdict.score is not None), None),
    )
