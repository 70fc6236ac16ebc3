"""The groups of a run as a simulated domain has them: tokens, answers, and what judging an answer took and came to.

Members with equal replies gave one answer, whose time is the mean of those that were judged for it: `Verdict.took_s`,
without the time in the queue, which the simulator has of its own. Where no verdict of an answer was paid for in its
group, it was known from before (no time), or joined to an equal one that reads differently (as long as it waited).
Attempts that failed and were tried again are in the log of an asynchronous run alone; one that cost no time is taken
to have been joined to one of its group that failed alike.

Decisions:
- Groups of which members are missing are left out: what was cut, or was left at the stage's end, is what took long.
- Of very many groups, as many as are kept are taken evenly over their order.
Not covered: episodes of several turns whose last turns are equal share no verdict here.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from statistics import fmean

from burnish.core.types import Trajectory
from burnish.plan.cluster import Answer, DomainLoad, MeasuredAttempt, MeasuredGroup
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.stream_log import Judged

MOST_GROUPS = 2000
Failed = Mapping[tuple[str, int], Sequence[Judged]]
"""The failed attempts of a member, by group and number, in order; without the one that is kept as its trajectory."""


def domain_loads(
    groups: Sequence[Sequence[Trajectory]], scheduler: SchedulerConfig, failed: Failed
) -> list[DomainLoad]:
    """What each domain was like."""
    by_domain: defaultdict[str, list[Sequence[Trajectory]]] = defaultdict(list)
    for members in groups:
        by_domain[members[0].task_id.split("/")[0]].append(members)
    return [_load(name, several, scheduler, failed) for name, several in sorted(by_domain.items())]


def _load(name: str, groups: Sequence[Sequence[Trajectory]], scheduler: SchedulerConfig, failed: Failed) -> DomainLoad:
    whole = [members for members in groups if len(members) >= scheduler.grouping(name).group_size] or groups
    kept = [_measured(members, failed) for members in whole[:: -(-len(whole) // MOST_GROUPS)]]
    members = list(chain.from_iterable(groups))
    return DomainLoad(
        name=re.sub(r"[^\w.-]", "_", name),
        weight=float(len(groups)),
        groups=kept,
        keeps_verdicts=any(member.verdict is not None and member.verdict.from_cache for member in members),
        max_tokens=max(attempt.tokens for group in kept for attempts in group.members for attempt in attempts),
    )


def _measured(members: Sequence[Trajectory], failed: Failed) -> MeasuredGroup:
    by_answer: defaultdict[Hashable, list[Trajectory]] = defaultdict(list)
    for member in members:
        by_answer[member.member if member.steps else member.reply].append(member)
    number_of = {member.member: number for number, several in enumerate(by_answer.values()) for member in several}
    answers = [_answer(several) for several in by_answer.values()]
    attempts = {member.member: [MeasuredAttempt(member.num_sampled, number_of[member.member])] for member in members}
    failures: dict[str, int] = {}
    judged = [(member.member, one) for member in members for one in failed.get((member.group_id, member.member), ())]
    for number, one in sorted(judged, key=lambda pair: -pair[1].took_s):  # before those that were joined to them
        if one.took_s or one.failure not in failures:
            failures[one.failure] = len(answers)
            answers.append(Answer.model_validate({"verify_s": one.took_s, "failure": one.failure}))
        attempts[number].insert(-1, MeasuredAttempt(one.num_tokens, failures[one.failure]))
    return MeasuredGroup(answers=answers, members=list(attempts.values()))


def _answer(members: Sequence[Trajectory]) -> Answer:
    verdicts = [member.verdict for member in members if member.verdict is not None]
    paid_s = [verdict.took_s for verdict in verdicts if verdict.took_s]
    waited_s = [member.verify_s for member in members if member.verdict is None or not member.verdict.from_cache]
    verify_s = fmean(paid_s or waited_s or [0.0])
    if scores := [verdict.score for verdict in verdicts if verdict.score is not None]:
        return Answer(verify_s=verify_s, score=scores[0])
    return Answer.model_validate({"verify_s": verify_s, "failure": verdicts[0].kind})
