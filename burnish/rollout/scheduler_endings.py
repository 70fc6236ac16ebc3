"""How members end, and how groups do: complete and ready for a batch, or let go, and why.

A member that fails is tried again or lost. A group is complete when enough of its members are scored or none is open;
it ends without training where it cannot be complete any more, shows no signal, is too old, or is too late.
"""

import heapq
import math
from collections.abc import Sequence

from burnish.core.types import VerdictKind
from burnish.rollout import watch
from burnish.rollout.scheduler_groups import OPEN, Account, Group
from burnish.rollout.scheduler_state import State
from burnish.rollout.scheduler_types import Ended, Prompt, Why

RETRIED: frozenset[VerdictKind] = frozenset({"timeout", "infrastructure_error"})
REPLACED: frozenset[Why] = frozenset({"no_signal", "failed", "deadline", "budget"})
"""Ends after which another prompt is drawn for the same batch."""

# Members


def fail(state: State, group: Group, index: int, kind: VerdictKind, now_s: float) -> None:
    """A member has no score: it is tried again, or lost."""
    member, prompt = group.members[index], group.prompt
    account, rules = state.account(prompt.domain), state.intake.rules(prompt.domain)
    is_retried = kind in RETRIED and member.num_retries < state.config.num_retries
    if is_retried and account.can_pay(rules, prompt.max_tokens, prompt.max_verify_s):
        member.num_retries += 1
        attempt_again(state, group, index, now_s)
        return
    state.enter(group, index, "lost", now_s)
    resolve(state, group, now_s)


def attempt_again(state: State, group: Group, index: int, now_s: float) -> None:
    """Let a member wait for a new attempt."""
    state.account(group.prompt.domain).reserve(group.prompt.max_tokens, group.prompt.max_verify_s)
    state.enter(group, index, "pending", now_s)
    group.members[index].again(now_s)
    state.starts.queue(group, index)


def refund_open(state: State, group: Group, index: int) -> None:
    """Give back what an open member has not used of what was set aside for it."""
    member, prompt = group.members[index], group.prompt
    tokens = 0 if member.phase == "judging" else prompt.max_tokens - member.num_tokens
    state.account(prompt.domain).reserve(-tokens, -prompt.max_verify_s)


def _cut_open(state: State, group: Group, now_s: float) -> None:
    for index, member in enumerate(group.members):
        if member.phase in OPEN:
            if member.phase != "pending":
                state.cut.append(group.ticket(index))
            refund_open(state, group, index)
            state.enter(group, index, "cut", now_s)


# Groups


def resolve(state: State, group: Group, now_s: float) -> None:
    """Find out whether a group is complete, and whether it can train."""
    rules = state.intake.grouping(group.prompt.domain)
    if group.num_scored + group.num_open < rules.num_needed:
        end(state, group, "failed", now_s)
    elif group.num_scored >= rules.group_size or not group.num_open:
        _complete(state, group, now_s)


def _complete(state: State, group: Group, now_s: float) -> None:
    """Enough of its members are scored; those that are still open are cut."""
    _cut_open(state, group, now_s)
    account = state.account(group.prompt.domain)
    scores = [member.score for member in group.members if member.phase == "scored" and member.score is not None]
    _learn(account, group, scores)
    if state.intake.grouping(group.prompt.domain).needs_signal and len(set(scores)) < 2:
        account.num_without_signal += 1
        account.num_barren += 1
        if account.num_barren == state.config.barren_after:
            state.notices.append(watch.barren_notice(group.prompt.domain, account.num_barren, scores))
        end(state, group, "no_signal", now_s)
        return
    account.num_barren = 0
    if is_stale(state, group):
        end(state, group, "stale", now_s)
        return
    group.ready_number = state.num_resolved
    state.num_resolved += 1
    account.num_unresolved -= 1
    state.batches.add_ready(group)
    state.intake.let_in(group.prompt.domain)


def _learn(account: Account, group: Group, scores: Sequence[float]) -> None:
    account.num_groups += 1
    account.reward_variance.add(_variance(scores))
    logs = [math.log(max(member.num_tokens, 1)) for member in group.members if member.phase == "scored"]
    if len(logs) > 1:
        account.log_variance_within.add(_variance(logs) * len(logs) / (len(logs) - 1))


def is_stale(state: State, group: Group) -> bool:
    """Whether no token of it (under "mask": all of them) is young enough for the next batch."""
    scored = [member for member in group.members if member.phase == "scored"]
    if state.config.overdue == "mask":
        version = max((member.newest for member in scored if member.newest is not None), default=state.version)
    else:
        version = min((member.oldest for member in scored if member.oldest is not None), default=state.version)
    return version + state.bound(group) < state.version


def end(state: State, group: Group, why: Why, now_s: float) -> None:
    """Let a group go."""
    forget(state, group, now_s)
    tell_ended(state, group.prompt, why, group.num_scored)


def forget(state: State, group: Group, now_s: float) -> None:
    """It is outstanding no more."""
    _cut_open(state, group, now_s)
    if not group.is_ready:
        state.account(group.prompt.domain).num_unresolved -= 1
    state.batches.end(group)
    state.starts.forget(group)
    del state.groups[group.prompt.group_id]
    state.intake.let_in(group.prompt.domain)


def tell_ended(state: State, prompt: Prompt, why: Why, num_scored: int) -> None:
    """Have it told that a prompt will not train."""
    state.live_ids.discard(prompt.group_id)
    state.num_ended_since_batch += why in REPLACED
    state.ended.append(Ended(prompt.group_id, prompt.domain, why, num_scored))


def expire(state: State, now_s: float) -> None:
    """End what is past its deadline, or let it train with the members that it has."""
    while state.deadlines and state.deadlines[0][0] <= now_s:
        group = state.groups.get(heapq.heappop(state.deadlines)[1])
        if group is None or group.is_ready or group.prompt.deadline_s is None or group.prompt.deadline_s > now_s:
            continue
        if group.num_scored < state.intake.grouping(group.prompt.domain).num_needed:
            end(state, group, "deadline", now_s)
        else:
            _complete(state, group, now_s)


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)
