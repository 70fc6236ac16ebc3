"""Run the real scheduler on a virtual clock: what would this cluster do with this recipe?

An event heap; members run on a `Fleet`, verdicts in a queue for sandboxes, training steps one after the other.
A comparison of policies is one of the same work, because what becomes of a member follows from the cluster's seed and
the member's name (`world`).

Covered: engines that slow down with the number of members, pauses for new weights, memory for keys and values,
queues for sandboxes, verdicts that siblings share, attempts that die, verdicts that fail, groups without signal.
Not covered: networks, prefill, weights that reach engines one by one, learning itself (pass rates stay).
"""

import gc
import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from burnish.plan.cluster import Cluster
from burnish.plan.fleet import Fleet
from burnish.plan.outcome import Outcome, Tally
from burnish.plan.verdict_queue import VerdictQueue, Work
from burnish.plan.world import Fate, World
from burnish.rollout.scheduler import Priority, Scheduler
from burnish.rollout.scheduler_types import Decision, Load, Start, Ticket


def simulate(cluster: Cluster, *, priority: Priority | None = None) -> Outcome:
    """Run to the last batch, or for so many hours."""
    with _no_cycles_sought():
        return _Simulation(cluster, priority).run()


@contextmanager
def _no_cycles_sought() -> Iterator[None]:
    """Without the garbage collector, which costs an eighth of the time and finds nothing: no record refers back."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Simulation:
    def __init__(self, cluster: Cluster, priority: Priority | None) -> None:
        self._cluster = cluster
        self._scheduler = Scheduler(cluster.scheduler, priority=priority)
        self._fleet = Fleet(cluster.engines)
        self._world = World(cluster)
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._num_events = self._made = self._engine_version = 0
        self._now_s = 0.0
        self._ends_s = math.inf if cluster.hours is None else cluster.hours * 3600
        self._foreseen = [-1] * cluster.engines.num
        """Of each engine, the stamp under which its next end was foreseen last."""
        self._fates: dict[Ticket, Fate] = {}
        self._num_judged: Counter[str] = Counter()
        self._kept: dict[tuple[str, int], tuple[int, int]] = {}
        self._queue = VerdictQueue(cluster.num_sandboxes)
        self._is_learning = self._is_over = False
        self._kv: tuple[float, float | None] = (-math.inf, None)
        num_slots = cluster.engines.num * cluster.engines.slots
        self._told = Load(num_slots=num_slots, num_waiting_verdicts=0, num_sandboxes=cluster.num_sandboxes)
        self._tally = Tally(cluster)

    def run(self) -> Outcome:
        self._turn()
        while self._events and self._events[0][0] <= self._ends_s and not self._is_over:
            self._now_s, _, happen, arguments = heapq.heappop(self._events)
            happen(*arguments)
        end_s = self._now_s if self._is_over or self._ends_s == math.inf else self._ends_s
        return self._tally.outcome(end_s, self._fleet, is_over=self._is_over)

    def _forget(self, group_id: str) -> None:
        self._world.forget(group_id)
        self._queue.forget(group_id)
        self._num_judged.pop(group_id, None)

    def _later(self, at_s: float, happen: Callable[..., None], *arguments: object) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (at_s, self._num_events, happen, arguments))

    # What the driver of a real run does

    def _turn(self) -> None:
        if wanted := self._scheduler.num_wanted(self._now_s):
            self._scheduler.offer([self._world.draw() for _ in range(wanted)], self._now_s)
        self._decide()
        if not self._is_learning and (plan := self._scheduler.next_batch(self._now_s)) is not None:
            self._is_learning = True
            num_tokens = self._tally.batch(plan, self._now_s, self._fleet.stood_s(self._now_s))
            for group in plan.groups:
                self._forget(group.group_id)
            learner = self._cluster.learner
            took_s = learner.step_s + num_tokens * learner.token_s / learner.num if plan.groups else 0.0
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
        if (self._told.kv_used, self._told.num_waiting_verdicts) != (self._kv[1], len(self._queue)):
            self._told = replace(self._told, kv_used=self._kv[1], num_waiting_verdicts=len(self._queue))
        return self._told

    # Decisions

    def _on_cut(self, ticket: Ticket) -> None:
        if ticket in self._fleet.runs:
            run, num_tokens = self._fleet.stop(ticket, self._now_s)
            self._tally.wasted(num_tokens)
            self._foresee(run.engine)
        self._fates.pop(ticket, None)
        self._queue.cut(ticket)
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
        fate = self._fates.get(ticket) or self._world.fate(ticket)
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
        if self._fleet.is_current(engine, self._foreseen[engine]):
            return
        if (end := self._fleet.next_end(engine, self._now_s)) is not None:
            at_s, self._foreseen[engine], ticket = end
            self._later(at_s, self._on_sampled, engine, self._foreseen[engine], ticket)

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
            self._tally.sampled(ticket, num_tokens, fate)
            self._ask(ticket, fate)
        self._decide()
        self._foresee(engine)

    def _ask(self, ticket: Ticket, fate: Fate) -> None:
        load = self._world.load(ticket.group_id)
        if self._queue.ask(ticket, fate, keeps_verdicts=load is not None and load.keeps_verdicts):
            self._later(self._now_s, self._on_known, ticket, fate)
        self._judge_some()

    def _judge_some(self) -> None:
        for work in self._queue.start():
            self._later(self._now_s + work.fate.verify_s, self._on_judged, work)

    def _on_known(self, ticket: Ticket, fate: Fate) -> None:
        if self._tell(ticket, fate, 0.0):
            self._turn()

    def _on_judged(self, work: Work) -> None:
        self._tally.judged(work.fate.verify_s, is_repeated=work.is_repeated)
        told = [
            self._tell(ticket, work.fate, work.fate.verify_s if number == 0 else 0.0)
            for number, ticket in enumerate(self._queue.end(work))
        ]
        self._judge_some()
        if any(told):
            self._turn()

    def _tell(self, ticket: Ticket, fate: Fate, sandbox_s: float) -> bool:
        """A verdict is there; whether that may decide anything: before a group is complete, a score does not."""
        self._fates.pop(ticket, None)
        kind = fate.failure or "scored"
        self._scheduler.judged(ticket, self._now_s, kind=kind, score=fate.score, sandbox_s=sandbox_s)
        self._num_judged[ticket.group_id] += 1
        return fate.score is None or self._num_judged[ticket.group_id] >= self._world.group_size(ticket.group_id)

    def _on_learned(self, version: int) -> None:
        self._is_learning = False
        self._made = version
        self._scheduler.weights_ready(version, self._now_s)
        self._turn()

    def _on_loaded(self, version: int) -> None:
        self._engine_version = version
        # what was foreseen for members that were cut may still be to come
        self._is_over = version == self._cluster.scheduler.num_batches
        self._scheduler.weights_loaded(version, self._now_s)
        self._turn()
