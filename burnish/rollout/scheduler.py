"""The scheduler: which member of which group is sampled, cut, paused and trained when.

A deterministic state machine: no clock, no thread, no tensor, no I/O. A driver (the loop of stage `rl`, or a
simulator) tells it what happened and when, and asks `decide` and `next_batch`; equal calls give equal answers.
docs/scheduling.md says how it is driven, what each option does, and which bias each has.

The staleness bound. Let V be the next training step, e the version that the engines sample from, S =
`max_staleness`, B = `batch_groups`. A group begins only while at most B (e + S - V + 1) groups are outstanding.
Batches V ... e + S hold that many, so each of them can train while its tokens of version e lag by S at most, if
batches are taken in order (`scheduler_batches`). Whatever else is reported, a group with older tokens never
gets into a batch.

Covered: admission, priority, ageing, quotas, budgets, deadlines, retries, refill, over-sampling, restarts,
pauses, adaptive concurrency, state as JSON. Not covered: which engine a member runs on; weights that reach
engines one after the other (the driver says `weights_loaded` when the last one has them).
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from burnish.core.plugins import load
from burnish.core.types import VerdictKind
from burnish.rollout import concurrency, watch
from burnish.rollout.lengths import predict
from burnish.rollout.priority import priority as expected_signal
from burnish.rollout.scheduler_batches import BatchQueue
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.scheduler_groups import IN_FLIGHT, OPEN, Account, Group, Member, settled
from burnish.rollout.scheduler_intake import NOTHING_KNOWN, Intake, Priority, Refused
from burnish.rollout.scheduler_starts import StartQueue
from burnish.rollout.scheduler_types import (
    BatchGroup,
    BatchPlan,
    Decision,
    DomainStatus,
    Ended,
    Load,
    Phase,
    Prompt,
    Start,
    Status,
    Ticket,
    Why,
)

RETRIED: frozenset[VerdictKind] = frozenset({"timeout", "infrastructure_error"})
REPLACED: frozenset[Why] = frozenset({"no_signal", "failed", "deadline", "budget"})
"""Ends after which another prompt is drawn for the same batch."""
UNLIMITED = Load()
MOST_HELD_BACK = 4
"""Batches of prompts that may wait for room in their domains."""
_NOTHING = Decision()


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
        self._intake = Intake(config, priority or priority_function(config), accounts)
        self._starts = StartQueue(config.batch_groups)
        self._now_s = self._moved_s = -math.inf
        self._version = self._made = self._engine_version = first_version
        self._last_version = math.inf if config.num_batches is None else config.num_batches
        self._capacity = self._find_capacity()
        self._num_spare = round(config.batch_groups * (config.max_draws_factor - 1))
        self._is_closed = self._told_to_load = False
        self._num_admitted = self._num_resolved = 0
        self._num_ended_since_batch = 0
        self._limit = concurrency.Limit(float(config.concurrency.most), -math.inf)
        self._num_in: dict[Phase, int] = {"pending": 0, "sampling": 0, "paused": 0, "judging": 0}
        self._batches = BatchQueue(config)
        self._groups: dict[str, Group] = {}
        self._live_ids: set[str] = set()
        self._deadlines: list[tuple[float, str]] = []
        self._cut: list[Ticket] = []
        self._pause: list[Ticket] = []
        self._restarted: list[str] = []
        self._ended: list[Ended] = []
        self._notices: list[str] = []

    # Prompts

    def num_wanted(self, now_s: float) -> int:
        """How many prompts to draw and offer now."""
        self._at(now_s)
        if self._is_closed or self._intake.num_held_back > MOST_HELD_BACK * self.config.batch_groups:
            return 0
        ahead = self.config.lookahead if self._version < self._last_version else 0
        return max(0, max(0, self._room()) + ahead - self._intake.num_waiting)

    def offer(self, prompts: Sequence[Prompt], now_s: float, *, had_begun: bool = False) -> None:
        """Add groups to choose from; `ValueError` if one is known already.

        Args:
            had_begun: an earlier process had begun these; they go first, in this order, as their tokens are older.
        """
        self._at(now_s)
        for prompt in prompts:
            if prompt.group_id in self._live_ids:
                raise ValueError(f"group {prompt.group_id!r} was offered before and has not ended; offer a prompt once")
            self._live_ids.add(prompt.group_id)
            lag = min(len(self._batches) / self.config.batch_groups, self.config.max_staleness)
            self._intake.offer(prompt, now_s, version=self._version, expected_lag=lag, goes_first=had_begun)

    def close(self, now_s: float) -> None:
        """No prompts will come any more: what is there makes the last batches."""
        self._at(now_s)
        self._is_closed = True

    # Decisions

    def decide(self, now_s: float, load: Load = UNLIMITED) -> Decision:
        """What to do now."""
        self._at(now_s)
        self._expire(now_s)
        self._admit(now_s)
        self._limit = concurrency.follow(self._limit, load, self.config.concurrency, self._num_in["sampling"], now_s)
        loads = self._may_load()
        starts = self._start_some(now_s, load)
        if not (starts or loads or self._cut or self._pause or self._restarted or self._ended or self._notices):
            return _NOTHING
        self._moved_s = now_s
        decision = Decision(
            cut=tuple(self._cut), pause=tuple(self._pause), restarted=tuple(self._restarted), ended=tuple(self._ended),
            load_weights=loads, start=tuple(starts), notices=tuple(self._notices),
        )  # fmt: skip
        for told in (self._cut, self._pause, self._restarted, self._ended, self._notices):
            told.clear()
        return decision

    def _may_load(self) -> bool:
        """Whether to load new weights, said once."""
        if self._told_to_load or self._made <= self._engine_version:
            return False
        self._told_to_load = self.config.on_weights == "continue" or self._num_in["sampling"] == 0
        return self._told_to_load

    def _start_some(self, now_s: float, load: Load) -> list[Start]:
        most = int(self._limit.value) if load.num_slots is None else min(int(self._limit.value), load.num_slots)
        starts: list[Start] = []
        if self._is_held():
            return starts
        while self._num_in["sampling"] < most and (found := self._next_to_start()) is not None:
            group, index = found
            member = group.members[index]
            resumes = member.phase == "paused"
            member.start_tokens = member.num_tokens
            self._enter(group, index, "sampling", now_s)
            starts.append(Start(group.ticket(index), resumes, group.level))
        return starts

    def _is_held(self) -> bool:
        """Whether tokens sampled now could not train any more, or the engines must run empty for new weights."""
        finishes = self.config.on_weights == "finish" and self._made > self._engine_version
        return finishes or self._engine_version + self.config.max_staleness < self._version

    def _next_to_start(self) -> tuple[Group, int] | None:
        while (found := self._starts.next_member(self._is_full)) is None:
            if not self._begin_one():
                return None
        return found

    def _is_full(self, domain: str) -> bool:
        return self._intake.account(domain).is_full(self._intake.rules(domain))

    def _begin_one(self) -> bool:
        """Let the next admitted group begin: its members may start from now on."""
        if len(self._batches) > self._capacity or (group := self._starts.next_group()) is None:
            return False
        group.version = self._engine_version
        self._batches.begin(group)
        for index in range(len(group.members)):
            self._starts.queue(group, index)
        return True

    # Admission

    def _find_capacity(self) -> int:
        """How many groups may be outstanding; see the module's docstring. Changes with versions alone."""
        num_batches = min(self._engine_version + self.config.max_staleness + 1, self._last_version) - self._version
        if num_batches <= 0:
            return 0
        size = self.config.batch_groups
        return int(num_batches) * size + math.ceil(size * self.config.oversample)

    def _room(self) -> int:
        """How many groups may be admitted now."""
        num_left = self._num_spare - self._num_ended_since_batch
        return self._capacity + min(0, num_left) - len(self._batches)

    def _admit(self, now_s: float) -> None:
        while self._room() > 0 and (found := self._intake.next(now_s)) is not None:
            if isinstance(found, Refused):
                self._tell_ended(found.prompt, found.why, 0)
                self._notices += [found.notice] if found.notice else []
            else:
                self._admit_one(found.prompt, found.level, now_s)

    def _admit_one(self, prompt: Prompt, level: int, now_s: float, *, num_restarts: int = 0, attempt: int = 0) -> None:
        account = self._account(prompt.domain)
        account.reserve(*self._intake.need(prompt))
        account.num_unresolved += 1
        num_started = self.config.grouping(prompt.domain).num_started
        group = Group(
            prompt=prompt,
            number=self._num_admitted,
            level=level,
            members=[Member(since_s=now_s, attempt=attempt) for _ in range(num_started)],
            predicted_tokens=self._intake.predicted(prompt),
            num_open=num_started,
            num_restarts=num_restarts,
        )
        self._num_admitted += 1
        self._num_in["pending"] += len(group.members)
        self._groups[prompt.group_id] = group
        self._batches.admit(group)
        self._starts.admit(group)
        if prompt.deadline_s is not None:
            heapq.heappush(self._deadlines, (prompt.deadline_s, prompt.group_id))

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
        member, account = group.members[ticket.member], self._account(group.prompt.domain)
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
            self._batches.began_at(group, oldest_version)
        self._enter(group, ticket.member, "judging", now_s)
        return True

    def progress(self, ticket: Ticket, now_s: float, *, num_tokens: int) -> bool:
        """So many tokens of a member have been sampled so far; need not be told, but budgets know more then."""
        group = self._current(ticket, now_s, "sampling")
        if group is not None:
            self._spend(group, group.members[ticket.member], num_tokens)
        return group is not None

    def _spend(self, group: Group, member: Member, num_tokens: int) -> None:
        account, new_tokens = self._account(group.prompt.domain), num_tokens - member.num_tokens
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
        account = self._account(group.prompt.domain)
        account.sandbox_s += sandbox_s
        group.members[ticket.member].sandbox_s = sandbox_s
        account.reserve(0, -group.prompt.max_verify_s)
        account.verify_s.add(sandbox_s)
        if kind != "scored":
            self._fail(group, ticket.member, kind, now_s)
            return True
        assert score is not None
        group.members[ticket.member].score = score
        group.num_scored += 1
        self._enter(group, ticket.member, "scored", now_s)
        self._resolve(group, now_s)
        return True

    def lost(self, ticket: Ticket, now_s: float, *, kind: VerdictKind = "infrastructure_error") -> bool:
        """An attempt died before it was sampled to its end."""
        group = self._current(ticket, now_s, "sampling")
        if group is None:
            return False
        self._refund_open(group, ticket.member)
        self._fail(group, ticket.member, kind, now_s)
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
        self._enter(group, ticket.member, "paused", now_s)
        self._starts.queue(group, ticket.member)
        return True

    def interrupted(self, now_s: float) -> None:
        """All that was in flight is lost (a crash, a resumed run): those members wait for new attempts."""
        self._at(now_s)
        for group in self._batches.groups():
            for index, member in enumerate(group.members):
                if member.phase in ("sampling", "paused", "judging"):
                    self._refund_open(group, index)
                    self._attempt_again(group, index, now_s)

    def _current(self, ticket: Ticket, now_s: float, phase: Phase) -> Group | None:
        self._at(now_s)
        group = self._groups.get(ticket.group_id)
        if group is None:
            return None
        member = group.members[ticket.member]
        if member.attempt != ticket.attempt or member.phase != phase:
            return None
        self._moved_s = now_s
        return group

    def _enter(self, group: Group, index: int, phase: Phase, now_s: float) -> None:
        """Move a member to a phase, and keep all counts that depend on phases."""
        member = group.members[index]
        before, member.phase, member.since_s = member.phase, phase, now_s
        if before in OPEN:
            self._num_in[before] -= 1
        if phase in OPEN:
            self._num_in[phase] += 1
        group.num_open += (phase in OPEN) - (before in OPEN)
        change = (phase in IN_FLIGHT) - (before in IN_FLIGHT)
        if change:
            self._account(group.prompt.domain).in_flight += change
        if change < 0 or phase == "cut":
            self._starts.unpark(group.prompt.domain)

    # Ends of members and groups

    def _fail(self, group: Group, index: int, kind: VerdictKind, now_s: float) -> None:
        member, prompt = group.members[index], group.prompt
        account, rules = self._account(prompt.domain), self._intake.rules(prompt.domain)
        is_retried = kind in RETRIED and member.num_retries < self.config.num_retries
        if is_retried and account.can_pay(rules, prompt.max_tokens, prompt.max_verify_s):
            member.num_retries += 1
            self._attempt_again(group, index, now_s)
            return
        self._enter(group, index, "lost", now_s)
        self._resolve(group, now_s)

    def _attempt_again(self, group: Group, index: int, now_s: float) -> None:
        self._account(group.prompt.domain).reserve(group.prompt.max_tokens, group.prompt.max_verify_s)
        self._enter(group, index, "pending", now_s)
        group.members[index].again(now_s)
        self._starts.queue(group, index)

    def _resolve(self, group: Group, now_s: float) -> None:
        """Find out whether a group is complete, and whether it can train."""
        rules = self.config.grouping(group.prompt.domain)
        if group.num_scored + group.num_open < rules.num_needed:
            self._end(group, "failed", now_s)
        elif group.num_scored >= rules.group_size or not group.num_open:
            self._cut_open(group, now_s)
            self._complete(group, now_s)

    def _complete(self, group: Group, now_s: float) -> None:
        account = self._account(group.prompt.domain)
        scores = [member.score for member in group.members if member.phase == "scored" and member.score is not None]
        self._learn(account, group, scores)
        if self.config.grouping(group.prompt.domain).needs_signal and len(set(scores)) < 2:
            account.num_without_signal += 1
            account.num_barren += 1
            if account.num_barren == self.config.barren_after:
                self._notices.append(watch.barren_notice(group.prompt.domain, account.num_barren, scores))
            self._end(group, "no_signal", now_s)
            return
        account.num_barren = 0
        if self._is_stale(group):
            self._end(group, "stale", now_s)
            return
        group.ready_number = self._num_resolved
        self._num_resolved += 1
        account.num_unresolved -= 1
        self._batches.add_ready(group)
        self._intake.let_in(group.prompt.domain)

    def _learn(self, account: Account, group: Group, scores: Sequence[float]) -> None:
        account.num_groups += 1
        account.reward_variance.add(_variance(scores))
        logs = [math.log(max(member.num_tokens, 1)) for member in group.members if member.phase == "scored"]
        if len(logs) > 1:
            account.log_variance_within.add(_variance(logs) * len(logs) / (len(logs) - 1))

    def _is_stale(self, group: Group) -> bool:
        """Whether no token of it (under "mask": all of them) is young enough for the next batch."""
        scored = [member for member in group.members if member.phase == "scored"]
        if self.config.overdue == "mask":
            version = max((member.newest for member in scored if member.newest is not None), default=self._version)
        else:
            version = min((member.oldest for member in scored if member.oldest is not None), default=self._version)
        return version + self._bound(group) < self._version

    def _bound(self, group: Group) -> int:
        """How many versions its tokens may lag."""
        return self.config.grouping(group.prompt.domain).max_staleness

    def _cut_open(self, group: Group, now_s: float) -> None:
        for index, member in enumerate(group.members):
            if member.phase in OPEN:
                if member.phase != "pending":
                    self._cut.append(group.ticket(index))
                self._refund_open(group, index)
                self._enter(group, index, "cut", now_s)

    def _refund_open(self, group: Group, index: int) -> None:
        """Give back what an open member has not used of what was set aside for it."""
        member, prompt = group.members[index], group.prompt
        tokens = 0 if member.phase == "judging" else prompt.max_tokens - member.num_tokens
        self._account(prompt.domain).reserve(-tokens, -prompt.max_verify_s)

    def _end(self, group: Group, why: Why, now_s: float) -> None:
        self._forget(group, now_s)
        self._tell_ended(group.prompt, why, group.num_scored)

    def _forget(self, group: Group, now_s: float) -> None:
        """It is outstanding no more."""
        self._cut_open(group, now_s)
        if not group.is_ready:
            self._account(group.prompt.domain).num_unresolved -= 1
        self._batches.end(group)
        self._starts.forget(group)
        del self._groups[group.prompt.group_id]
        self._intake.let_in(group.prompt.domain)

    def _tell_ended(self, prompt: Prompt, why: Why, num_scored: int) -> None:
        self._live_ids.discard(prompt.group_id)
        self._num_ended_since_batch += why in REPLACED
        self._ended.append(Ended(prompt.group_id, prompt.domain, why, num_scored))

    def _expire(self, now_s: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now_s:
            group = self._groups.get(heapq.heappop(self._deadlines)[1])
            if group is None or group.is_ready or group.prompt.deadline_s is None or group.prompt.deadline_s > now_s:
                continue
            if group.num_scored < self.config.grouping(group.prompt.domain).num_needed:
                self._end(group, "deadline", now_s)
            else:
                self._cut_open(group, now_s)
                self._complete(group, now_s)

    # Batches and weights

    def next_batch(self, now_s: float) -> BatchPlan | None:
        """The batch of the next training step, once; None while it is not ready or the step before is not over."""
        self._at(now_s)
        version = self._version
        if version > self._made or version >= self._last_version:
            return None
        if not (self._batches.is_ready(version) or self._must_be_short()):
            return None
        groups = self._batches.take()
        for group in groups:
            self._starts.forget(group)
            del self._groups[group.prompt.group_id]
            self._live_ids.discard(group.prompt.group_id)
        self._version, self._num_ended_since_batch, self._moved_s = version + 1, 0, now_s
        self._capacity = self._find_capacity()
        self._settle_overdue(now_s)
        return BatchPlan(
            version=version,
            groups=tuple(_batch_group(group) for group in groups),
            oldest_trainable_version=version - self.config.max_staleness,
            is_short=len(groups) < self.config.batch_groups,
        )

    def _must_be_short(self) -> bool:
        """Whether no more groups may be drawn for this batch, or none will come."""
        num_drawn = self._num_ended_since_batch + self._batches.num_in_order
        is_all = not (self._batches.num_unresolved or self._intake.num_waiting or self._intake.num_held_back)
        is_last = self._is_closed and is_all and self._batches.num_ready > 0
        is_spent = num_drawn >= self.config.batch_groups + self._num_spare
        return (is_spent or is_last) and self._batches.rest_is_in_time(self._version)

    def _settle_overdue(self, now_s: float) -> None:
        """The next step has another number: say what becomes of groups that are too old for it."""
        if self._version >= self._last_version:
            for group in self._batches.groups():
                self._end(group, "surplus", now_s)
            return
        if self.config.overdue == "mask" and self._is_held():
            self._pause_all()
        for group in self._batches.groups():
            if group.version is None or group.version + self._bound(group) >= self._version:
                continue
            if group.is_ready and not self._is_stale(group):
                continue
            if self.config.overdue == "restart":
                self._restart(group, now_s)
            elif group.is_ready or self.config.overdue == "drop":
                self._end(group, "stale", now_s)

    def _pause_all(self) -> None:
        for group in self._batches.groups():
            phases = enumerate(member.phase for member in group.members)
            self._pause += [group.ticket(index) for index, phase in phases if phase == "sampling"]

    def _restart(self, group: Group, now_s: float) -> None:
        prompt = group.prompt
        self._forget(group, now_s)
        if not self._intake.can_pay(prompt):
            self._tell_ended(prompt, "budget", 0)
            return
        attempt = 1 + max(member.attempt for member in group.members)
        self._restarted.append(prompt.group_id)
        self._admit_one(prompt, group.level, now_s, num_restarts=group.num_restarts + 1, attempt=attempt)

    def weights_ready(self, version: int, now_s: float) -> None:
        """The learner has made the weights that step `version` starts from."""
        self._at(now_s)
        assert version == self._version, f"step {self._version} comes next, weights of version {version} were made"
        self._made, self._told_to_load, self._moved_s = version, False, now_s

    def weights_loaded(self, version: int, now_s: float) -> None:
        """All engines sample from these weights from now on."""
        self._at(now_s)
        assert self._engine_version <= version <= self._made
        self._engine_version, self._told_to_load, self._moved_s = version, False, now_s
        self._capacity = self._find_capacity()

    # What is shown and kept

    def status(self, now_s: float) -> Status:
        """Where everything stands; never changes anything."""
        return watch.status(
            self._batches.groups(), self._num_in, now_s=now_s, moved_s=self._moved_s, version=self._version,
            made=self._made, engine_version=self._engine_version, num_backlog=self._intake.num_waiting,
            num_held_back=self._intake.num_held_back, num_ready=self._batches.num_ready, limit=int(self._limit.value),
            is_done=self._version >= self._last_version,
        )  # fmt: skip

    def domain_status(self) -> dict[str, DomainStatus]:
        """The account of each domain."""
        return {domain: account.status() for domain, account in sorted(self._intake.accounts.items())}

    def settled_accounts(self) -> dict[str, dict[str, Any]]:
        """Each domain's account as plain JSON, as if its outstanding groups had not begun.

        One who goes on with those groups and tells of their kept members once more comes to the true account.
        """
        return settled(self._intake.accounts, self._batches.groups())

    def to_json(self) -> dict[str, Any]:
        """All that decides what comes next, as plain JSON."""
        return {
            **{name: _finite(getattr(self, f"_{name}")) for name in _NUMBERS},
            "limit": [self._limit.value, _finite(self._limit.at_s)],
            "intake": self._intake.to_json(),
            "groups": [group.to_json() for group in self._batches.groups()],
            **{name: [list(told) for told in getattr(self, f"_{name}")] for name in ("cut", "pause", "ended")},
            "restarted": list(self._restarted),
            "notices": list(self._notices),
        }

    @classmethod
    def restored(cls, config: SchedulerConfig, state: Mapping[str, Any], *, priority: Priority | None = None) -> Self:
        """A scheduler that goes on from `to_json`; call `interrupted` if what was in flight is gone."""
        scheduler = cls(config, priority=priority)
        scheduler._restore(state)
        return scheduler

    def _restore(self, state: Mapping[str, Any]) -> None:
        for name in _NUMBERS:
            setattr(self, f"_{name}", -math.inf if state[name] is None else state[name])
        self._capacity = self._find_capacity()
        value, at_s = state["limit"]
        self._limit = concurrency.Limit(value, -math.inf if at_s is None else at_s)
        self._intake.restore(state["intake"])
        for group in map(Group.from_json, state["groups"]):
            self._restore_group(group)
        self._live_ids = {*self._groups, *self._intake.group_ids()}
        self._cut, self._pause = ([Ticket(*ticket) for ticket in state[name]] for name in ("cut", "pause"))
        self._ended = [Ended(*ended) for ended in state["ended"]]
        self._restarted, self._notices = list(state["restarted"]), list(state["notices"])

    def _restore_group(self, group: Group) -> None:
        self._groups[group.prompt.group_id] = group
        self._batches.admit(group)
        self._starts.admit(group)
        for index, member in enumerate(group.members):
            if member.phase in OPEN:
                self._num_in[member.phase] += 1
            if group.version is not None and member.phase in ("pending", "paused"):
                self._starts.queue_as_before(group, index)
        if group.prompt.deadline_s is not None:
            heapq.heappush(self._deadlines, (group.prompt.deadline_s, group.prompt.group_id))

    # Small things

    def _at(self, now_s: float) -> None:
        assert now_s >= self._now_s, f"time went back from {self._now_s} to {now_s}"
        self._now_s = now_s

    def _account(self, domain: str) -> Account:
        return self._intake.account(domain)


_NUMBERS = (
    "now_s", "moved_s", "version", "made", "engine_version", "is_closed", "told_to_load",
    "num_admitted", "num_resolved", "num_ended_since_batch",
)  # fmt: skip


def _batch_group(group: Group) -> BatchGroup:
    scored = [index for index, member in enumerate(group.members) if member.phase == "scored"]
    phases = [member.phase for member in group.members]
    oldest = min(member.oldest for member in group.members if member.phase == "scored" and member.oldest is not None)
    return BatchGroup(
        group.prompt.group_id, group.prompt.domain, tuple(scored), phases.count("lost"), phases.count("cut"),
        oldest, group.newest,
    )  # fmt: skip


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
