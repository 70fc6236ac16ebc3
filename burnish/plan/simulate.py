"""Run the real scheduler on a virtual clock: what would this cluster do with this recipe?

An event heap; members run on a `Fleet`, verdicts in a queue for sandboxes, training steps one after the other.
All randomness comes from the cluster's seed and the member's name, so that a member has the same length under
every policy and a comparison of policies is one of the same work.

Covered: engines that slow down with the number of members, pauses for new weights, memory for keys and values,
queues for sandboxes, attempts that die, verdicts that fail, groups without signal. Not covered: networks,
prefill, weights that reach engines one by one, learning itself (pass rates stay).
"""

import heapq
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from burnish.core.seeds import derive
from burnish.plan.cluster import Cluster, DomainLoad
from burnish.plan.distributions import Table, alike
from burnish.plan.fleet import Fleet
from burnish.plan.outcome import Outcome, Tally
from burnish.rollout.scheduler import Priority, Scheduler
from burnish.rollout.scheduler_types import Decision, Load, Prompt, Start, Ticket


class _Domain(NamedTuple):
    """A domain's load, ready to draw from."""

    name: str
    load: DomainLoad
    lengths: Table
    verify_s: Table


class _Truth(NamedTuple):
    """What nobody knows of a group before it is sampled."""

    domain: _Domain
    seed: int
    common_length: float
    pass_rate: float
    offset: float
    """In [0, 1): which members pass, and how the share is rounded."""


class _Fate(NamedTuple):
    """What becomes of one attempt."""

    length: int
    is_lost: bool
    verify_s: float
    is_undecided: bool
    score: float


def simulate(cluster: Cluster, *, priority: Priority | None = None) -> Outcome:
    """Run to the last batch, or for so many hours."""
    return _Simulation(cluster, priority).run()


class _Simulation:
    def __init__(self, cluster: Cluster, priority: Priority | None) -> None:
        self._cluster = cluster
        self._scheduler = Scheduler(cluster.scheduler, priority=priority)
        self._fleet = Fleet(cluster.engines)
        self._domains = _domains(cluster)
        self._turns = [((1 / domain.load.weight), index) for index, domain in enumerate(self._domains)]
        heapq.heapify(self._turns)
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._num_events = self._num_drawn = self._made = self._engine_version = 0
        self._now_s = 0.0
        self._ends_s = math.inf if cluster.hours is None else cluster.hours * 3600
        self._truths: dict[str, _Truth] = {}
        self._fates: dict[Ticket, _Fate] = {}
        self._first_fates: dict[str, list[_Fate]] = {}
        self._num_judged: Counter[str] = Counter()
        self._kept: dict[tuple[str, int], tuple[int, int]] = {}
        self._queue: deque[Ticket] = deque()
        self._num_judging = 0
        self._is_learning = False
        self._kv: tuple[float, float | None] = (-math.inf, None)
        self._tally = Tally(cluster)

    def run(self) -> Outcome:
        self._turn()
        while self._events and self._events[0][0] <= self._ends_s and not self._is_over:
            self._now_s, _, happen, arguments = heapq.heappop(self._events)
            happen(*arguments)
        end_s = self._now_s if self._is_over or self._ends_s == math.inf else self._ends_s
        return self._tally.outcome(end_s, self._fleet, is_over=self._is_over)

    @property
    def _is_over(self) -> bool:
        """Whether the last weights are loaded; what was foreseen for members that were cut may still be to come."""
        return self._engine_version == self._cluster.scheduler.num_batches

    def _forget(self, group_id: str) -> None:
        for known in (self._truths, self._first_fates, self._num_judged):
            known.pop(group_id, None)

    def _later(self, at_s: float, happen: Callable[..., None], *arguments: object) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (at_s, self._num_events, happen, arguments))

    # What the driver of a real run does

    def _turn(self) -> None:
        if wanted := self._scheduler.num_wanted(self._now_s):
            self._scheduler.offer([self._draw() for _ in range(wanted)], self._now_s)
        self._decide()
        if not self._is_learning and (plan := self._scheduler.next_batch(self._now_s)) is not None:
            self._is_learning = True
            num_tokens = self._tally.batch(plan, self._now_s, self._fleet.stood_s(self._now_s))
            for group in plan.groups:
                self._forget(group.group_id)
            learner = self._cluster.learner
            took_s = learner.step_s + num_tokens * learner.token_s / learner.num
            self._tally.learned(took_s)
            if learner.shares_engines:
                self._stand_still(took_s)
            self._later(self._now_s + took_s, self._on_learned, plan.version + 1)
            self._decide()

    def _decide(self) -> None:
        decision = self._scheduler.decide(self._now_s, self._load())
        for ticket in decision.cut:
            self._on_cut(ticket)
        for ticket in decision.pause:
            self._on_pause(ticket)
        self._on_ends(decision)
        if decision.load_weights:
            self._load_weights()
        touched = {self._on_start(start) for start in decision.start}
        for index in sorted(touched):
            self._foresee(index)

    def _load(self) -> Load:
        has_limit = self._cluster.engines.kv_tokens is not None
        if has_limit and self._now_s - self._kv[0] >= self._cluster.scheduler.concurrency.every_s:
            self._kv = (self._now_s, self._fleet.kv_used(self._now_s))
        return Load(
            num_slots=self._num_slots, kv_used=self._kv[1], num_waiting_verdicts=len(self._queue),
            num_sandboxes=self._cluster.num_sandboxes,
        )  # fmt: skip

    @property
    def _num_slots(self) -> int:
        return self._cluster.engines.num * self._cluster.engines.slots

    # Decisions

    def _on_cut(self, ticket: Ticket) -> None:
        if ticket in self._fleet.runs:
            run, num_tokens = self._fleet.stop(ticket, self._now_s)
            self._tally.wasted(num_tokens)
            self._foresee(run.engine)
        self._fates.pop(ticket, None)
        self._kept.pop((ticket.group_id, ticket.member), None)

    def _on_pause(self, ticket: Ticket) -> None:
        run, num_tokens = self._fleet.stop(ticket, self._now_s)
        self._kept[ticket.group_id, ticket.member] = (num_tokens, run.oldest)
        self._scheduler.paused(ticket, self._now_s, num_tokens=num_tokens, oldest_version=run.oldest)
        self._foresee(run.engine)

    def _on_ends(self, decision: Decision) -> None:
        for ended in decision.ended:
            self._tally.ended(ended)
            self._forget(ended.group_id)
        for group_id in decision.restarted:
            self._tally.restarted(group_id)

    def _on_start(self, start: Start) -> int:
        ticket = start.ticket
        key = (ticket.group_id, ticket.member)
        num_before, oldest = self._kept.pop(key) if start.resumes else (0, self._engine_version)
        fate = self._fates.get(ticket) or self._fate(ticket)
        self._fates[ticket] = fate
        return self._fleet.start(ticket, max(fate.length, num_before + 1), num_before, oldest, self._now_s)

    def _load_weights(self) -> None:
        self._stand_still(self._cluster.engines.load_weights_s)
        self._later(self._now_s + self._cluster.engines.load_weights_s, self._on_loaded, self._made)

    def _stand_still(self, for_s: float) -> None:
        self._fleet.stand_still(self._now_s, for_s)
        for index in range(self._cluster.engines.num):
            self._foresee(index)

    # Events

    def _foresee(self, engine: int) -> None:
        if (end := self._fleet.next_end(engine, self._now_s)) is not None:
            at_s, stamp, ticket = end
            self._later(at_s, self._on_sampled, engine, stamp, ticket)

    def _on_sampled(self, engine: int, stamp: int, ticket: Ticket) -> None:
        if not self._fleet.is_current(engine, stamp):
            return
        run, num_tokens = self._fleet.stop(ticket, self._now_s)
        fate = self._fates[ticket]
        if fate.is_lost:
            self._tally.wasted(num_tokens)
            self._scheduler.lost(ticket, self._now_s)
        else:
            self._scheduler.sampled(
                ticket, self._now_s, num_tokens=num_tokens, oldest_version=run.oldest,
                newest_version=self._engine_version,
            )  # fmt: skip
            self._tally.sampled(ticket, num_tokens, fate.verify_s)
            self._queue.append(ticket)
            self._judge_some()
        self._decide()
        self._foresee(engine)

    def _judge_some(self) -> None:
        while self._queue and self._num_judging < self._cluster.num_sandboxes:
            ticket = self._queue.popleft()
            if (fate := self._fates.get(ticket)) is None:  # it was cut while it waited
                continue
            self._num_judging += 1
            self._later(self._now_s + fate.verify_s, self._on_judged, ticket, fate)

    def _on_judged(self, ticket: Ticket, fate: _Fate) -> None:
        self._num_judging -= 1
        self._tally.sandbox_s += fate.verify_s
        self._fates.pop(ticket, None)
        kind = "infrastructure_error" if fate.is_undecided else "scored"
        score = None if fate.is_undecided else fate.score
        self._scheduler.judged(ticket, self._now_s, kind=kind, score=score, sandbox_s=fate.verify_s)
        self._judge_some()
        self._num_judged[ticket.group_id] += 1
        truth = self._truths.get(ticket.group_id)  # none where the group has ended meanwhile
        group_size = self._cluster.scheduler.grouping(truth.domain.name if truth else "").group_size
        if fate.is_undecided or self._num_judged[ticket.group_id] >= group_size:
            self._turn()  # before a group is complete, a score decides nothing

    def _on_learned(self, version: int) -> None:
        self._is_learning = False
        self._made = version
        self._scheduler.weights_ready(version, self._now_s)
        self._turn()

    def _on_loaded(self, version: int) -> None:
        self._engine_version = version
        self._scheduler.weights_loaded(version, self._now_s)
        self._turn()

    # What the world is like

    def _draw(self) -> Prompt:
        turn, index = heapq.heappop(self._turns)
        domain = self._domains[index]
        heapq.heappush(self._turns, (turn + 1 / domain.load.weight, index))
        group_id = str(self._num_drawn)
        self._num_drawn += 1
        seed = derive(self._cluster.seed, group_id)
        generator = random.Random(seed)
        common_length, pass_rate = generator.gauss(0.0, 1.0), generator.choice(domain.load.pass_rates)
        self._truths[group_id] = _Truth(domain, seed, common_length, pass_rate, generator.random())
        return Prompt(
            group_id=group_id, domain=domain.name, max_tokens=domain.load.max_tokens,
            max_verify_s=domain.verify_s.quantiles[-1],
        )  # fmt: skip

    def _fate(self, ticket: Ticket) -> _Fate:
        """A first attempt's is drawn with those of its siblings; each attempt's depends on its name alone."""
        truth = self._truths[ticket.group_id]
        if ticket.attempt:
            generator = random.Random(derive(truth.seed, ticket.member, ticket.attempt))
            return _draw_fate(truth, ticket.member, generator)
        if (fates := self._first_fates.pop(ticket.group_id, None)) is None:
            generator = random.Random(truth.seed + 1)
            num_started = self._cluster.scheduler.grouping(truth.domain.name).num_started
            fates = [_draw_fate(truth, member, generator) for member in range(num_started)]
        if ticket.member < len(fates) - 1:
            self._first_fates[ticket.group_id] = fates
        return fates[ticket.member]


def _draw_fate(truth: _Truth, member: int, generator: random.Random) -> _Fate:
    load = truth.domain.load
    length = truth.domain.lengths.at(alike(truth.common_length, load.alike, generator))
    return _Fate(
        length=max(1, min(round(length), load.max_tokens)),
        is_lost=generator.random() < load.lost_share,
        verify_s=truth.domain.verify_s.at(generator.random()),
        is_undecided=generator.random() < load.undecided_share,
        score=_score(truth, member),
    )


def _score(truth: _Truth, member: int) -> float:
    """Systematic sampling: of any members in a row, as nearly the pass rate's share scores 1 as whole numbers allow."""
    before = math.floor(member * truth.pass_rate + truth.offset)
    return float(math.floor((member + 1) * truth.pass_rate + truth.offset) - before)


def _domains(cluster: Cluster) -> list[_Domain]:
    domains: list[_Domain] = []
    for load in cluster.domains:
        lengths, verify_s = Table(load.lengths), Table(load.verify_s)
        names = [load.name] if load.copies == 1 else [f"{load.name}-{number}" for number in range(load.copies)]
        domains += [_Domain(name, load, lengths, verify_s) for name in names]
    return domains
