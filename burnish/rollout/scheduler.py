"""The scheduler: which member of which group is sampled, cut, paused and trained when.

A deterministic state machine: no clock, no thread, no tensor, no I/O. A driver (the loop of stage `rl`, or a
simulator) tells it what happened and when, and asks `decide` and `next_batch`; equal calls give equal answers.
docs/scheduling.md says how it is driven, what each option does, and which bias each has.

The staleness bound. Let V be the next training step, e the version that the engines sample from, S =
`max_staleness`, B = `batch_groups`. A group begins only while at most B (e + S - V + 1) groups are outstanding.
Batches V ... e + S hold that many, so each of them can train while its tokens of version e lag by S at most, if
batches are taken in order (`scheduler_batches`). Whatever else is reported, a group with older tokens never
gets into a batch.

This file is what a driver tells and asks; `scheduler_state` says where the rest stands.

Covered: admission, priority, ageing, quotas, budgets, deadlines, retries, refill, over-sampling, restarts,
pauses, adaptive concurrency, state as JSON. Not covered: which engine a member runs on; weights that reach
engines one after the other (the driver says `weights_loaded` when the last one has them).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from burnish.core.plugins import load
from burnish.core.types import VerdictKind
from burnish.rollout import concurrency, watch
from burnish.rollout.lengths import predict
from burnish.rollout.priority import priority as expected_signal
from burnish.rollout.scheduler_admission import admit, num_wanted, offer, start_some
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.scheduler_endings import attempt_again, expire, fail, refund_open, resolve
from burnish.rollout.scheduler_groups import Group, Member, settled
from burnish.rollout.scheduler_intake import NOTHING_KNOWN, Intake, Priority
from burnish.rollout.scheduler_overdue import settle_overdue
from burnish.rollout.scheduler_state import State
from burnish.rollout.scheduler_types import (
    BatchGroup,
    BatchPlan,
    Decision,
    DomainStatus,
    Load,
    Phase,
    Prompt,
    Status,
    Ticket,
)

UNLIMITED = Load()


def priority_function(config: SchedulerConfig) -> Priority:
    """The function that the options name; `ConfigError` if there is none."""
    return expected_signal if config.priority is None else load("priorities", config.priority).priority


class Scheduler:
    """See the module's docstring."""

    def __init__(
        self, config: SchedulerConfig, *, first_version: int = 0, priority: Priority | None = None,
        accounts: Mapping[str, Any] = NOTHING_KNOWN,
    ) -> None:  # fmt: skip
        """`accounts` are what `settled_accounts` of an earlier process gave."""
        self.config = config
        intake = Intake(config, priority or priority_function(config), accounts)
        self._state = State(config, intake, first_version=first_version)

    # Prompts

    def num_wanted(self, now_s: float) -> int:
        """How many prompts to draw and offer now."""
        self._state.at(now_s)
        return num_wanted(self._state)

    def offer(self, prompts: Sequence[Prompt], now_s: float, *, had_begun: bool = False) -> None:
        """Add groups to choose from; `ValueError` if one is known already.

        Args:
            had_begun: an earlier process had begun these; they go first, in this order, as their tokens are older.
        """
        self._state.at(now_s)
        offer(self._state, prompts, now_s, had_begun=had_begun)

    def close(self, now_s: float) -> None:
        """No prompts will come any more: what is there makes the last batches."""
        self._state.at(now_s)
        self._state.is_closed = True

    # Decisions

    def decide(self, now_s: float, load: Load = UNLIMITED) -> Decision:
        """What to do now."""
        state = self._state
        state.at(now_s)
        expire(state, now_s)
        admit(state, now_s)
        num_sampling = state.num_in["sampling"]
        state.limit = concurrency.follow(state.limit, load, self.config.concurrency, num_sampling, now_s)
        loads = self._may_load()
        return state.tell(start_some(state, now_s, load), loads=loads)

    def _may_load(self) -> bool:
        """Whether to load new weights, said once."""
        state = self._state
        if state.told_to_load or state.made <= state.engine_version:
            return False
        state.told_to_load = self.config.on_weights == "continue" or state.num_in["sampling"] == 0
        return state.told_to_load

    # Events

    def sampled(
        self, ticket: Ticket, now_s: float, *, num_tokens: int, oldest_version: int, newest_version: int,
        was_kept: bool = False,
    ) -> bool:  # fmt: skip
        """An engine has finished a member, and its verdict is waited for. False: the ticket is not current.

        Args:
            was_kept: an earlier process sampled it, so how long that took is not to be learned from.
        """
        group = self._current(ticket, now_s, "sampling")
        if group is None:
            return False
        member, account = group.members[ticket.member], self._state.account(group.prompt.domain)
        self._spend(group, member, num_tokens)
        account.reserve(num_tokens - group.prompt.max_tokens, 0.0)
        if not was_kept:
            account.token_s.add((now_s - member.since_s) / max(num_tokens - member.start_tokens, 1))
        log_length = math.log(max(num_tokens, 1))
        account.log_lengths.add(log_length)
        group.num_finished += 1
        group.sum_of_logs += log_length
        length = predict(account.log_lengths, account.log_variance_within, group.num_finished, group.sum_of_logs)
        group.predicted_tokens = min(length.mean, group.prompt.max_tokens)
        member.oldest = oldest_version if member.oldest is None else min(member.oldest, oldest_version)
        member.newest = newest_version
        if group.version is not None and oldest_version < group.version:
            self._state.batches.began_at(group, oldest_version)
        self._state.enter(group, ticket.member, "judging", now_s)
        return True

    def progress(self, ticket: Ticket, now_s: float, *, num_tokens: int) -> bool:
        """So many tokens of a member have been sampled so far; need not be told, but budgets know more then."""
        group = self._current(ticket, now_s, "sampling")
        if group is not None:
            self._spend(group, group.members[ticket.member], num_tokens)
        return group is not None

    def _spend(self, group: Group, member: Member, num_tokens: int) -> None:
        account, new_tokens = self._state.account(group.prompt.domain), num_tokens - member.num_tokens
        account.tokens += new_tokens
        account.reserve(-new_tokens, 0.0)
        member.num_tokens = num_tokens

    def judged(
        self, ticket: Ticket, now_s: float, *, kind: VerdictKind, score: float | None = None, sandbox_s: float = 0.0
    ) -> bool:
        """A verdict is there. Only `scored` trains."""
        group = self._current(ticket, now_s, "judging")
        if group is None:
            return False
        account = self._state.account(group.prompt.domain)
        account.sandbox_s += sandbox_s
        group.members[ticket.member].sandbox_s = sandbox_s
        account.reserve(0, -group.prompt.max_verify_s)
        account.verify_s.add(sandbox_s)
        if kind != "scored":
            fail(self._state, group, ticket.member, kind, now_s)
            return True
        assert score is not None
        group.members[ticket.member].score = score
        group.num_scored += 1
        self._state.enter(group, ticket.member, "scored", now_s)
        resolve(self._state, group, now_s)
        return True

    def lost(self, ticket: Ticket, now_s: float, *, kind: VerdictKind = "infrastructure_error") -> bool:
        """An attempt died before it was sampled to its end."""
        group = self._current(ticket, now_s, "sampling")
        if group is None:
            return False
        refund_open(self._state, group, ticket.member)
        fail(self._state, group, ticket.member, kind, now_s)
        return True

    def paused(self, ticket: Ticket, now_s: float, *, num_tokens: int, oldest_version: int | None) -> bool:
        """The answer to `Decision.pause`: so many tokens are kept, the oldest of that version (None if none are)."""
        group = self._current(ticket, now_s, "sampling")
        if group is None:
            return False
        member = group.members[ticket.member]
        self._spend(group, member, num_tokens)
        if oldest_version is not None and member.oldest is None:
            member.oldest = oldest_version
        self._state.enter(group, ticket.member, "paused", now_s)
        self._state.starts.queue(group, ticket.member)
        return True

    def interrupted(self, now_s: float) -> None:
        """All that was in flight is lost (a crash, a resumed run): those members wait for new attempts."""
        self._state.at(now_s)
        for group in self._state.batches.groups():
            for index, member in enumerate(group.members):
                if member.phase in ("sampling", "paused", "judging"):
                    refund_open(self._state, group, index)
                    attempt_again(self._state, group, index, now_s)

    def _current(self, ticket: Ticket, now_s: float, phase: Phase) -> Group | None:
        self._state.at(now_s)
        group = self._state.groups.get(ticket.group_id)
        if group is None:
            return None
        member = group.members[ticket.member]
        if member.attempt != ticket.attempt or member.phase != phase:
            return None
        self._state.moved_s = now_s
        return group

    # Batches and weights

    def next_batch(self, now_s: float) -> BatchPlan | None:
        """The batch of the next training step, once; None while it is not ready or the step before is not over."""
        state = self._state
        state.at(now_s)
        version = state.version
        if version > state.made or version >= state.last_version:
            return None
        if not (state.batches.is_ready(version) or self._must_be_short()):
            return None
        groups = state.batches.take()
        for group in groups:
            state.starts.forget(group)
            del state.groups[group.prompt.group_id]
            state.live_ids.discard(group.prompt.group_id)
        state.version, state.num_ended_since_batch, state.moved_s = version + 1, 0, now_s
        state.capacity = state.find_capacity()
        settle_overdue(state, now_s)
        return BatchPlan(
            version=version,
            groups=tuple(_batch_group(group) for group in groups),
            oldest_trainable_version=version - self.config.max_staleness,
            is_short=len(groups) < self.config.batch_groups,
        )

    def _must_be_short(self) -> bool:
        """Whether no more groups may be drawn for this batch, or none will come."""
        state = self._state
        num_drawn = state.num_ended_since_batch + state.batches.num_in_order
        is_all = not (state.batches.num_unresolved or state.intake.num_waiting or state.intake.num_held_back)
        is_last = state.is_closed and is_all and state.batches.num_ready > 0
        is_spent = num_drawn >= self.config.batch_groups + state.num_spare
        return (is_spent or is_last) and state.batches.rest_is_in_time(state.version)

    def weights_ready(self, version: int, now_s: float) -> None:
        """The learner has made the weights that step `version` starts from."""
        state = self._state
        state.at(now_s)
        assert version == state.version, f"step {state.version} comes next, weights of version {version} were made"
        state.made, state.told_to_load, state.moved_s = version, False, now_s

    def weights_loaded(self, version: int, now_s: float) -> None:
        """All engines sample from these weights from now on."""
        state = self._state
        state.at(now_s)
        assert state.engine_version <= version <= state.made
        state.engine_version, state.told_to_load, state.moved_s = version, False, now_s
        state.capacity = state.find_capacity()

    # What is shown and kept

    def status(self, now_s: float) -> Status:
        """Where everything stands; never changes anything."""
        state = self._state
        return watch.status(
            state.batches.groups(), state.num_in, now_s=now_s, moved_s=state.moved_s, version=state.version,
            made=state.made, engine_version=state.engine_version, num_backlog=state.intake.num_waiting,
            num_held_back=state.intake.num_held_back, num_ready=state.batches.num_ready, limit=int(state.limit.value),
            is_done=state.version >= state.last_version,
        )  # fmt: skip

    def domain_status(self) -> dict[str, DomainStatus]:
        """The account of each domain."""
        return {domain: account.status() for domain, account in sorted(self._state.intake.accounts.items())}

    def settled_accounts(self) -> dict[str, dict[str, Any]]:
        """Each domain's account as plain JSON, as if its outstanding groups had not begun.

        One who goes on with those groups and tells of their kept members once more comes to the true account.
        """
        return settled(self._state.intake.accounts, self._state.batches.groups())

    def to_json(self) -> dict[str, Any]:
        """All that decides what comes next, as plain JSON."""
        return self._state.to_json()

    @classmethod
    def restored(cls, config: SchedulerConfig, state: Mapping[str, Any], *, priority: Priority | None = None) -> Self:
        """A scheduler that goes on from `to_json`; call `interrupted` if what was in flight is gone."""
        scheduler = cls(config, priority=priority)
        scheduler._state.restore(state)
        return scheduler


def _batch_group(group: Group) -> BatchGroup:
    scored = [index for index, member in enumerate(group.members) if member.phase == "scored"]
    phases = [member.phase for member in group.members]
    oldest = min(member.oldest for member in group.members if member.phase == "scored" and member.oldest is not None)
    return BatchGroup(
        group.prompt.group_id, group.prompt.domain, tuple(scored), phases.count("lost"), phases.count("cut"),
        oldest, group.newest,
    )  # fmt: skip
