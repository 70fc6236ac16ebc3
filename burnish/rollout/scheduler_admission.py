"""How prompts become groups, and how members of groups come to be sampled.

A prompt is offered and waits (`scheduler_intake`); it is admitted, a group then, while there is room; the group begins
when a place in the engines is free, and its members start (`scheduler_starts` has their order).
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace

from burnish.rollout.scheduler_endings import tell_ended
from burnish.rollout.scheduler_groups import Group, Member
from burnish.rollout.scheduler_intake import Refused
from burnish.rollout.scheduler_state import State
from burnish.rollout.scheduler_types import Load, Prompt, Start

MOST_HELD_BACK = 4
"""Batches of prompts that may wait for room in their domains."""


def num_wanted(state: State) -> int:
    """How many prompts to draw now."""
    if state.is_closed or state.intake.num_held_back > MOST_HELD_BACK * state.config.batch_groups:
        return 0
    ahead = state.config.lookahead if state.version < state.last_version else 0
    return max(0, max(0, _room(state)) + ahead - state.intake.num_waiting)


def offer(state: State, prompts: Sequence[Prompt], now_s: float, *, had_begun: bool) -> None:
    """Let prompts wait; those that had begun in an earlier process go first."""
    for prompt in prompts:
        if prompt.group_id in state.live_ids:
            raise ValueError(f"group {prompt.group_id!r} was offered before and has not ended; offer a prompt once")
        state.live_ids.add(prompt.group_id)
        lag = min(len(state.batches) / state.config.batch_groups, state.config.max_staleness)
        state.intake.offer(
            _timed(state, prompt, now_s), now_s, version=state.version, expected_lag=lag, goes_first=had_begun
        )


def _timed(state: State, prompt: Prompt, now_s: float) -> Prompt:
    """With the deadline that its domain gives to each of its prompts, if it has none of its own."""
    within_s = state.intake.rules(prompt.domain).deadline_s
    return prompt if within_s is None or prompt.deadline_s is not None else replace(prompt, deadline_s=now_s + within_s)


def admit(state: State, now_s: float) -> None:
    """Make groups of the prompts that come next, while there is room."""
    while _room(state) > 0 and (found := state.intake.next(now_s)) is not None:
        if isinstance(found, Refused):
            tell_ended(state, found.prompt, found.why, 0)
            state.notices += [found.notice] if found.notice else []
        else:
            admit_one(state, found.prompt, found.level, now_s)


def _room(state: State) -> int:
    """How many groups may be admitted now."""
    num_left = state.num_spare - state.num_ended_since_batch
    return state.capacity + min(0, num_left) - len(state.batches)


def admit_one(
    state: State, prompt: Prompt, level: int, now_s: float, *, num_restarts: int = 0, attempt: int = 0
) -> None:
    """Make a group of a prompt, and set aside what it may cost."""
    account = state.account(prompt.domain)
    account.reserve(*state.intake.need(prompt))
    account.num_unresolved += 1
    num_started = state.intake.grouping(prompt.domain).num_started
    group = Group(
        prompt=prompt,
        number=state.num_admitted,
        level=level,
        members=[Member(since_s=now_s, attempt=attempt) for _ in range(num_started)],
        predicted_tokens=state.intake.predicted(prompt),
        num_open=num_started,
        num_restarts=num_restarts,
    )
    state.num_admitted += 1
    state.num_in["pending"] += num_started
    state.groups[prompt.group_id] = group
    state.batches.admit(group)
    state.starts.admit(group)
    if prompt.deadline_s is not None:
        heapq.heappush(state.deadlines, (prompt.deadline_s, prompt.group_id))


def start_some(state: State, now_s: float, load: Load) -> list[Start]:
    """Let members start, as many as the limit and the engines have places for."""
    most = int(state.limit.value) if load.num_slots is None else min(int(state.limit.value), load.num_slots)
    starts: list[Start] = []
    if state.is_held:
        return starts
    while state.num_in["sampling"] < most and (found := _next_to_start(state)) is not None:
        group, index = found
        member = group.members[index]
        resumes = member.phase == "paused"
        member.start_tokens = member.num_tokens
        state.enter(group, index, "sampling", now_s)
        starts.append(Start(group.ticket(index), resumes, group.level))
    return starts


def _next_to_start(state: State) -> tuple[Group, int] | None:
    while (found := state.starts.next_member(state.intake.is_full)) is None:
        if not _begin_one(state):
            return None
    return found


def _begin_one(state: State) -> bool:
    """Let the next admitted group begin: its members may start from now on."""
    if len(state.batches) > state.capacity or (group := state.starts.next_group()) is None:
        return False
    group.version = state.engine_version
    state.batches.begin(group)
    for index in range(len(group.members)):
        state.starts.queue(group, index)
    return True
