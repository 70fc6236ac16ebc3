"""`burnish tasks check`: proofs that every domain owes, on real tasks of both splits.

Proved: gold scores 1, an empty reply scores 0, equal seeds give equal tasks in a second, fresh domain,
and a task's id names it. Shown but not judged, because small task spaces and mixed held-out sets
may share on purpose: how many prompts and sources the two splits have in common.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import typer
from rich.table import Table

from burnish.commands.opening import box_for, open_named
from burnish.core.types import SPLITS, Split, Task
from burnish.domains import Domain, task_id
from burnish.sandbox import Box
from burnish.stages.terminal import terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One claim about one split: how many tasks were tried, and what went against it."""

    split: Split
    claim: str
    num_tried: int
    against: tuple[str, ...]


def check_domain(name: str, num: int, seed: int, options: Sequence[str], isolation: str) -> int:
    """Print the proofs; 0 if all hold, else 1."""
    domain, again = open_named(name, options), open_named(name, options)
    tasks: dict[Split, list[Task]] = {split: _tasks(domain, split, num, seed) for split in SPLITS}
    proofs = [_equal_seeds(split, tasks[split], _tasks(again, split, num, seed)) for split in SPLITS]
    proofs += [_ids(name, split, seed, tasks[split]) for split in SPLITS]
    proofs += asyncio.run(_graded(domain, tasks, isolation))
    terminal().print(_table(name, proofs))
    typer.echo(_shared(tasks["train"], tasks["eval"]))
    failed = [proof for proof in proofs if proof.against]
    for proof in failed:
        typer.echo(f"{proof.split}: {proof.claim}: not so for {proof.against[0]}", err=True)
    return 1 if failed else 0


def _tasks(domain: Domain, split: Split, num: int, seed: int) -> list[Task]:
    size = domain.size(split)
    return [domain.task(split, seed, index) for index in range(num if size is None else min(num, size))]


def _equal_seeds(split: Split, tasks: list[Task], again: list[Task]) -> Proof:
    against = tuple(a.id for a, b in zip(tasks, again, strict=True) if a != b)
    return Proof(split=split, claim="equal seeds, equal tasks", num_tried=len(tasks), against=against)


def _ids(name: str, split: Split, seed: int, tasks: list[Task]) -> Proof:
    against = tuple(task.id for index, task in enumerate(tasks) if task.id != task_id(name, split, seed, index))
    return Proof(split=split, claim="the id names the task", num_tried=len(tasks), against=against)


async def _graded(domain: Domain, tasks: dict[Split, list[Task]], isolation: str) -> list[Proof]:
    async with box_for(domain, isolation, num_workers=2) as box:
        proofs: list[Proof] = []
        for split in SPLITS:
            known = [(task, task.gold) for task in tasks[split] if task.gold is not None]
            proofs.append(await _scores(domain, box, split, "gold scores 1", known, 1.0))
            empty = [(task, "") for task in tasks[split]]
            proofs.append(await _scores(domain, box, split, "an empty reply scores 0", empty, 0.0))
        return proofs


async def _scores(
    domain: Domain, box: Box, split: Split, claim: str, replies: list[tuple[Task, str]], expected: float
) -> Proof:
    verdicts = [await domain.verify(task, reply, box) for task, reply in replies]
    against = tuple(
        f"{task.id} ({verdict.kind}, score {verdict.score}; {verdict.evidence})"
        for (task, _), verdict in zip(replies, verdicts, strict=True)
        if verdict.score != expected
    )
    return Proof(split=split, claim=claim, num_tried=len(replies), against=against)


def _table(name: str, proofs: Sequence[Proof]) -> Table:
    table = Table(title=name)
    for heading in ("split", "claim", "tried", "against", ""):
        table.add_column(heading, justify="right" if heading in ("tried", "against") else "left")
    for proof in proofs:
        outcome = "does not hold" if proof.against else "holds" if proof.num_tried else "nothing to try"
        table.add_row(proof.split, proof.claim, str(proof.num_tried), str(len(proof.against)), outcome)
    return table


def _shared(train: Sequence[Task], held_out: Sequence[Task]) -> str:
    prompts = {task.prompt_hash for task in train} & {task.prompt_hash for task in held_out}
    sources = {task.source for task in train if task.source} & {task.source for task in held_out if task.source}
    return f"in common between train and eval: {len(prompts)} prompts, {len(sources)} sources"
