"""What the steps of a stage `rl` did and how long they took, from its metrics and, if it was asynchronous, its log.

A synchronous step begins all its members together and waits for them. Between two asynchronous updates the engine makes
steps, of which each gives every member in it one token; the ledger says which were in it when.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from burnish.core import metrics
from burnish.core.ledger import Ledger
from burnish.core.types import Trajectory
from burnish.rollout.stream_log import Began, Cut, Interrupted, Judged, Moment, Sampled, Trained, from_ledger

NEEDED = ("train_s", "tokens_sampled", "num_groups")
SAMPLED_S = ("sample_and_judge_s", "sample_s")
"""What a synchronous step and an asynchronous one call the time before their update."""


class Spell(NamedTuple):
    """Some sampling: it took `took_s = a first + b second`."""

    first: float
    second: float
    took_s: float


def rows_of(run: Path, stage: str) -> list[metrics.Row]:
    """The steps that measured what is needed."""
    return [
        row
        for row in metrics.read(run / "metrics.jsonl")
        if row.stage == stage and row.values.keys() >= {*NEEDED} and row.values.keys() & {*SAMPLED_S}
    ]


def _sample_s(values: Mapping[str, float]) -> float:
    return next(values[name] for name in SAMPLED_S if name in values)


def step_s(values: Mapping[str, float]) -> float:
    """How long a step took: sampling, waiting and its update."""
    return values["train_s"] + _sample_s(values) + values.get("idle_s", 0.0)


def measured_steps_s(run: Path, stage: str) -> list[float]:
    """The times from update to update: `Outcome.step_s` of the fitted cluster is about their mean."""
    rows = [row.values for row in rows_of(run, stage)]
    return [step_s(row) - row["train_s"] + before["train_s"] for before, row in pairwise(rows)]


def synchronous(rows: Sequence[metrics.Row], groups: Sequence[Sequence[Trajectory]], batch_groups: int) -> list[Spell]:
    """One spell a wave. Steps take draws in order; a wave draws as many groups as the step still lacks."""
    spells: list[Spell] = []
    first = 0
    for row in rows:
        num = int(row.values["num_groups"] + row.values.get("num_groups_without_signal", 0))
        spells += map(_wave, _waves(groups[first : first + num], batch_groups))
        first += num
    return spells


def _waves(groups: Sequence[Sequence[Trajectory]], batch_groups: int) -> Iterator[Sequence[Sequence[Trajectory]]]:
    num_kept = 0
    while groups:
        size = max(batch_groups - num_kept, 1)
        wave, groups = groups[:size], groups[size:]
        num_kept += sum(len({member.verdict and member.verdict.score for member in members}) > 1 for members in wave)
        yield wave


def _wave(groups: Sequence[Sequence[Trajectory]]) -> Spell:
    members = [member for several in groups for member in several]
    lengths = [member.num_sampled for member in members]
    return Spell(max(lengths), sum(lengths) - max(lengths), max(member.sample_s for member in members))


def moments_of(run: Path, position: int) -> list[Moment]:
    """The log of an asynchronous stage."""
    ledger = Ledger(run / "ledger.sqlite")
    try:
        return from_ledger(ledger.events(position))
    finally:
        ledger.close()


def asynchronous(moments: Sequence[Moment], slots: int, rows: Sequence[metrics.Row]) -> list[Spell]:
    """One spell a step: what the engine did between two updates."""
    work = _engine_work(moments, slots)
    return [
        Spell(work[row.step].num_steps, work[row.step].num_tokens - work[row.step].num_steps, _sample_s(row.values))
        for row in rows
        if row.step in work
    ]


def failed_attempts(moments: Sequence[Moment], position: int) -> dict[tuple[str, int], list[Judged]]:
    """Of each member the attempts that failed and were followed by another."""
    events = [event for moment in moments for event in moment.events]
    newest = {(event.key.number, event.key.member): event.key.attempt for event in events if isinstance(event, Began)}
    failed: defaultdict[tuple[str, int], list[Judged]] = defaultdict(list)
    for event in events:
        if isinstance(event, Judged) and event.failure:
            number, member, attempt = event.key
            if attempt < newest[number, member]:
                failed[f"{position}/{number:07d}", member].append(event)
    return failed


class _Work(NamedTuple):
    """What the engine did before an update."""

    num_steps: int
    num_tokens: int


def _engine_work(moments: Sequence[Moment], slots: int) -> dict[int, _Work]:
    """Of each training step. A member has one token of each engine step from its beginning to its end."""
    work: dict[int, _Work] = {}
    num_members = num_steps = num_tokens = last_tick = 0
    for moment in moments:
        passed, last_tick = moment.tick - last_tick, moment.tick
        num_steps += passed
        num_tokens += passed * min(num_members, slots)
        for event in moment.events:
            match event:
                case Began():
                    num_members += 1
                case Sampled() | Cut():
                    num_members -= 1
                case Interrupted():
                    num_members = 0
                case Trained():
                    work[event.step] = _Work(num_steps, num_tokens)
                    num_steps = num_tokens = 0
                case _:
                    pass
    return work
