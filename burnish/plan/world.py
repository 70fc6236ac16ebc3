"""What the simulated world is like: which prompts come, and what becomes of each attempt at them.

All of it follows from the cluster's seed and the member's name, so that a member has the same fate under every policy.
A domain's groups are drawn from its distributions, or dealt from those that a run had, whole: their members' lengths,
answers and verdicts belong together (the cluster bootstrap: Davison and Hinkley, Bootstrap Methods and their
Application, 1997, section 3.8). They are dealt from a shuffled deck, so that a world of as many groups as the run had
has each of them once, rare delays as often as the run met them.
"""

import heapq
import math
import random
from typing import NamedTuple

from burnish.core.seeds import derive
from burnish.core.types import VerdictKind
from burnish.plan.cluster import Cluster, DomainLoad, MeasuredAttempt, MeasuredGroup
from burnish.plan.distributions import Table, alike
from burnish.rollout.scheduler_config import Grouping
from burnish.rollout.scheduler_types import Prompt, Ticket


class Fate(NamedTuple):
    """What becomes of one attempt."""

    length: int
    is_lost: bool
    answer: int | None
    """Siblings that gave the same answer share a verdict; None is one that nobody else gave."""
    verify_s: float
    score: float | None
    failure: VerdictKind | None
    """Why there is no score, where there is none."""


class _Domain(NamedTuple):
    """A domain's load, ready to draw from."""

    name: str
    load: DomainLoad
    lengths: Table | None
    verify_s: Table
    longest_verify_s: float
    grouping: Grouping


class _Truth(NamedTuple):
    """What nobody knows of a group before it is sampled."""

    domain: _Domain
    seed: int
    common_length: float
    pass_rate: float
    offset: float
    """In [0, 1): which members pass, and how the share is rounded."""
    measured: MeasuredGroup | None


class World:
    """Prompts, dealt to domains in turn by weight, and the fates of their members."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._domains = _domains(cluster)
        self._turns = [((1 / domain.load.weight), index) for index, domain in enumerate(self._domains)]
        heapq.heapify(self._turns)
        self._decks: list[list[MeasuredGroup]] = [[] for _ in self._domains]
        self._num_decks = [0] * len(self._domains)
        self._num_drawn = 0
        self._truths: dict[str, _Truth] = {}
        self._first_fates: dict[str, list[Fate]] = {}

    def draw(self) -> Prompt:
        """The next prompt."""
        turn, index = heapq.heappop(self._turns)
        domain = self._domains[index]
        heapq.heappush(self._turns, (turn + 1 / domain.load.weight, index))
        group_id = str(self._num_drawn)
        self._num_drawn += 1
        seed = derive(self._cluster.seed, group_id)
        generator = random.Random(seed)
        common_length, pass_rate = generator.gauss(0.0, 1.0), generator.choice(domain.load.pass_rates)
        self._truths[group_id] = _Truth(
            domain,
            seed,
            common_length,
            pass_rate,
            generator.random(),
            self._dealt(index) if domain.load.groups else None,
        )
        return Prompt(
            group_id=group_id, domain=domain.name, max_tokens=domain.load.max_tokens,
            max_verify_s=domain.longest_verify_s,
        )  # fmt: skip

    def load(self, group_id: str) -> DomainLoad | None:
        """What a group's domain is like; None where the group has ended."""
        truth = self._truths.get(group_id)
        return truth.domain.load if truth else None

    def group_size(self, group_id: str) -> int:
        """How many scored members make it complete; 0 where it has ended."""
        truth = self._truths.get(group_id)
        return truth.domain.grouping.group_size if truth else 0

    def fate(self, ticket: Ticket) -> Fate:
        """A first attempt's is drawn with those of its siblings; each attempt's depends on its name alone."""
        truth = self._truths[ticket.group_id]
        num_started = truth.domain.grouping.num_started
        if ticket.attempt:
            return _retry(truth, ticket, num_started)
        if (fates := self._first_fates.pop(ticket.group_id, None)) is None:
            fates = _first_fates(truth, num_started)
        if ticket.member < len(fates) - 1:
            self._first_fates[ticket.group_id] = fates
        return fates[ticket.member]

    def forget(self, group_id: str) -> None:
        """The group has ended."""
        self._truths.pop(group_id, None)
        self._first_fates.pop(group_id, None)

    def _dealt(self, index: int) -> MeasuredGroup:
        if not self._decks[index]:
            groups = self._domains[index].load.groups or []
            generator = random.Random(derive(self._cluster.seed, "deck", index, self._num_decks[index]))
            self._decks[index] = generator.sample(groups, len(groups))
            self._num_decks[index] += 1
        return self._decks[index].pop()


def _first_fates(truth: _Truth, num: int) -> list[Fate]:
    generator = random.Random(truth.seed + 1)
    if truth.measured is None:
        return [_drawn_fate(truth, member, generator) for member in range(num)]
    members = _members(truth.measured, num, generator)
    return [_measured_fate(truth, truth.measured, attempts[0], generator) for attempts in members]


def _retry(truth: _Truth, ticket: Ticket, num: int) -> Fate:
    generator = random.Random(derive(truth.seed, ticket.member, ticket.attempt))
    if truth.measured is None:
        return _drawn_fate(truth, ticket.member, generator)
    attempts = _members(truth.measured, num, random.Random(truth.seed + 1))[ticket.member]
    if ticket.attempt >= len(attempts):
        attempts = generator.choice(truth.measured.members)
    return _measured_fate(truth, truth.measured, attempts[min(ticket.attempt, len(attempts) - 1)], generator)


def _members(group: MeasuredGroup, num: int, generator: random.Random) -> list[list[MeasuredAttempt]]:
    """Its members in any order, as many as there are each once; more than that are drawn again."""
    most = min(num, len(group.members))
    return generator.sample(group.members, most) + generator.choices(group.members, k=num - most)


def _drawn_fate(truth: _Truth, member: int, generator: random.Random) -> Fate:
    load = truth.domain.load
    assert truth.domain.lengths is not None
    length = truth.domain.lengths.at(alike(truth.common_length, load.alike, generator))
    is_lost = generator.random() < load.lost_share
    verify_s = truth.domain.verify_s.at(generator.random())
    is_undecided = generator.random() < load.undecided_share
    return Fate(
        length=max(1, min(round(length), load.max_tokens)), is_lost=is_lost, answer=None, verify_s=verify_s,
        score=None if is_undecided else _score(truth, member),
        failure="infrastructure_error" if is_undecided else None,
    )  # fmt: skip


def _measured_fate(truth: _Truth, group: MeasuredGroup, attempt: MeasuredAttempt, generator: random.Random) -> Fate:
    load, answer = truth.domain.load, group.answers[attempt.answer]
    return Fate(
        length=max(1, min(attempt.tokens, load.max_tokens)), is_lost=generator.random() < load.lost_share,
        answer=attempt.answer, verify_s=answer.verify_s, score=answer.score, failure=answer.failure,
    )  # fmt: skip


def _score(truth: _Truth, member: int) -> float:
    """Systematic sampling: of any members in a row, as nearly the pass rate's share scores 1 as whole numbers allow."""
    before = math.floor(member * truth.pass_rate + truth.offset)
    return float(math.floor((member + 1) * truth.pass_rate + truth.offset) - before)


def _domains(cluster: Cluster) -> list[_Domain]:
    domains: list[_Domain] = []
    for load in cluster.domains:
        lengths, verify_s = Table(load.lengths) if load.lengths else None, Table(load.verify_s)
        longest_s = max((answer.verify_s for group in load.groups or () for answer in group.answers), default=None)
        names = [load.name] if load.copies == 1 else [f"{load.name}-{number}" for number in range(load.copies)]
        longest_verify_s = verify_s.quantiles[-1] if longest_s is None else longest_s
        groupings = {name: cluster.scheduler.grouping(name) for name in names}
        domains += [_Domain(name, load, lengths, verify_s, longest_verify_s, groupings[name]) for name in names]
    return domains
