"""A world for the scheduler: random lengths, delays and failures on a virtual clock, and a record of what happened."""

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from burnish.rollout.scheduler import Scheduler
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.scheduler_types import BatchPlan, Decision, Ended, Load, Prompt, Start, Ticket

MAX_TOKENS = 200
MAX_VERIFY_S = 3.0


@dataclass
class World:
    """Drives a scheduler to its last batch."""

    config: SchedulerConfig
    seed: int
    num_slots: int = 12
    domains: tuple[str, ...] = ("a", "b")
    failure_share: float = 0.1
    alike_share: float = 0.2
    reloads_every: int = 0
    """Write the scheduler to JSON and read it back after every so many events."""
    batches: list[BatchPlan] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    most_in_flight: Counter[str] = field(default_factory=Counter)
    notices: list[str] = field(default_factory=list)
    now: float = 0.0
    made: int = 0
    engine_version: int = 0
    sampled_versions: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.scheduler = Scheduler(self.config)
        self.events: list[tuple[float, int, Callable[[], object]]] = []
        self.num_events = 0
        self.dead: set[Ticket] = set()
        self.kept: dict[tuple[str, int], tuple[int, int]] = {}
        self.running: dict[Ticket, tuple[int, int, int]] = {}
        self.num_starts = 0

    def run(self, most_events: int = 20_000) -> "World":
        while len(self.batches) < self.config.num_batches and self.num_events < most_events:
            self.turn()
            if not self.events:
                break
            self.now, _, happen = heapq.heappop(self.events)
            happen()
            if self.reloads_every and self.num_events % self.reloads_every == 0:
                state = json.loads(json.dumps(self.scheduler.to_json(), allow_nan=False))
                self.scheduler = Scheduler.restored(self.config, state)
        self.act(self.scheduler.decide(self.now))
        return self

    def turn(self):
        wanted = self.scheduler.num_wanted(self.now)
        self.scheduler.offer([self.prompt(len(self.offered) + i) for i in range(wanted)], self.now)
        self.offered += [str(len(self.offered) + i) for i in range(wanted)]
        self.act(self.scheduler.decide(self.now, Load(num_slots=self.num_slots)))
        if plan := self.scheduler.next_batch(self.now):
            self.batches.append(plan)
            self.log.append(f"{self.now:.6f} {plan}")
            self.later(1.5, lambda: self.learn(plan.version + 1))

    def prompt(self, number: int) -> Prompt:
        deadline = self.now + 40 if number % 7 == 3 else None
        return Prompt(
            group_id=str(number), domain=self.domains[number % len(self.domains)], max_tokens=MAX_TOKENS,
            max_verify_s=MAX_VERIFY_S, deadline_s=deadline,
        )  # fmt: skip

    def act(self, decision: Decision):
        if decision != Decision():
            self.log.append(f"{self.now:.6f} {decision}")
        self.dead |= set(decision.cut)
        for ticket in decision.pause:
            self.pause(ticket)
        self.ended += decision.ended
        self.notices += decision.notices
        if decision.load_weights:
            self.later(self.random.choice([0.0, 0.7]), self.load)
        for start in decision.start:
            self.start(start)
        for domain, account in self.scheduler.domain_status().items():
            self.most_in_flight[domain] = max(self.most_in_flight[domain], account.in_flight)

    def learn(self, version: int):
        self.made = version
        self.scheduler.weights_ready(version, self.now)

    def load(self):
        self.engine_version = self.made
        self.scheduler.weights_loaded(self.engine_version, self.now)

    def start(self, start: Start):
        ticket, begun = start.ticket, self.engine_version
        key = (ticket.group_id, ticket.member)
        num_kept, oldest = self.kept.pop(key, (0, begun)) if start.resumes else (0, begun)
        length = num_kept + min(MAX_TOKENS - num_kept, 1 + int(self.random.lognormvariate(3, 1)))
        self.num_starts += 1
        number = self.num_starts
        self.running[ticket] = (number, num_kept, oldest)
        after_s = 0.02 * (length - num_kept) + self.random.random()
        self.later(after_s, lambda: self.finish(number, ticket, length, oldest))

    def pause(self, ticket: Ticket):
        _, num_kept, oldest = self.running.pop(ticket)
        num_tokens = min(num_kept + 3, MAX_TOKENS)
        self.kept[ticket.group_id, ticket.member] = (num_tokens, oldest)
        self.scheduler.paused(ticket, self.now, num_tokens=num_tokens, oldest_version=oldest)

    def finish(self, number: int, ticket: Ticket, length: int, oldest: int):
        if ticket in self.dead or self.running.get(ticket, (0,))[0] != number:
            return
        if self.random.random() < self.failure_share / 2:
            self.scheduler.lost(ticket, self.now)
            return
        self.scheduler.sampled(
            ticket, self.now, num_tokens=length, oldest_version=oldest, newest_version=self.engine_version
        )
        self.sampled_versions[ticket.group_id, ticket.member] = (oldest, self.engine_version)
        self.later(self.random.random() * MAX_VERIFY_S, lambda: self.judge(ticket))

    def judge(self, ticket: Ticket):
        kind = "scored"
        if self.random.random() < self.failure_share:
            kind = self.random.choice(["unscorable", "timeout", "infrastructure_error"])
        is_alike = int(ticket.group_id) % 100 < 100 * self.alike_share
        score = 1.0 if is_alike else self.random.choice([0.0, 0.0, 1.0])
        self.scheduler.judged(
            ticket, self.now, kind=kind, score=score if kind == "scored" else None,
            sandbox_s=self.random.random() * MAX_VERIFY_S,
        )  # fmt: skip

    def later(self, after_s: float, happen: Callable[[], object]):
        self.num_events += 1
        heapq.heappush(self.events, (self.now + after_s, self.num_events, happen))
