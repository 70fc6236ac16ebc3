"""`burnish tasks check`: the canon (`burnish.evals.canon`) on real tasks of both splits, as a table.

Shown but not judged: how many prompts and sources the two splits have in common, because small task spaces and mixed
held-out sets may share on purpose; and which replies that know nothing pass above chance (`burnish.evals.weakness`),
because honest questions may have two answers. Such a task set is called weak.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import typer
from rich.table import Table

from burnish.commands.opening import box_for, open_named
from burnish.core.types import SPLITS, Split, Task
from burnish.core.visible import visible
from burnish.domains import Domain
from burnish.evals import canon, weakness
from burnish.evals.canon import Extent, Proof
from burnish.rollout.judge import judge_in
from burnish.stages.terminal import terminal

NUM_WORKERS = 2
MOST_WEAK = 3


def check_domain(
    name: str, num: int, seed: int, options: Sequence[str], isolation: str, *, chance: float, as_json: bool = False
) -> int:
    """Print the proofs; 0 if all hold, else 1."""
    domain, again = open_named(name, options), open_named(name, options)
    tasks: dict[Split, list[Task]] = {split: canon.draw(domain, split, seed, num) for split in SPLITS}
    judged, guesses = asyncio.run(_judged(domain, tasks, isolation, chance))
    proofs = canon.on_tasks(name, seed, tasks, again) + judged
    if as_json:
        typer.echo(json.dumps([asdict(proof) for proof in (*proofs, *guesses)], indent=2))
    else:
        terminal().print(_table(name, [*proofs, *guesses]))
        typer.echo(_shared(tasks["train"], tasks["eval"]))
        for guess in guesses:
            for line in guess.against[:MOST_WEAK]:
                typer.echo(f"{guess.split}: weak: {visible(line)}; chance is {chance:g}")
    failed = [proof for proof in proofs if proof.against]
    for proof in failed:
        typer.echo(f"{proof.split}: {proof.claim}: not so for {visible(proof.against[0])}", err=True)
    return 1 if failed else 0


async def _judged(
    domain: Domain, tasks: dict[Split, list[Task]], isolation: str, chance: float
) -> tuple[list[Proof], list[Proof]]:
    """The canon's proofs, and what replies that know nothing earn, in the same form."""
    extent = Extent(is_isolated=isolation != "none", is_local=canon.is_local(domain, isolation))
    async with box_for(domain, isolation, num_workers=NUM_WORKERS) as box:
        judge = judge_in(box, num_at_once=NUM_WORKERS)
        proofs = await canon.on_verdicts(domain, tasks, judge, extent)
        guesses = [await _guessed(split, tasks[split], partial(judge, domain), chance) for split in SPLITS]
    return proofs, guesses


async def _guessed(split: Split, tasks: Sequence[Task], ask: weakness.Ask, chance: float) -> Proof:
    found = await weakness.baselines(tasks, ask)
    against = tuple(map(str, weakness.weak(found, chance)))
    return Proof(split=split, claim=weakness.CLAIM, num_tried=len(tasks) * len(found), against=against)


def _table(name: str, proofs: Sequence[Proof]) -> Table:
    table = Table(title=name)
    for heading in ("split", "claim", "tried", "against", ""):
        table.add_column(heading, justify="right" if heading in ("tried", "against") else "left")
    for proof in proofs:
        fault = "weak" if proof.claim == weakness.CLAIM else "does not hold"
        outcome = fault if proof.against else "holds" if proof.num_tried else "nothing to try"
        table.add_row(proof.split, proof.claim, str(proof.num_tried), str(len(proof.against)), outcome)
    return table


def _shared(train: Sequence[Task], held_out: Sequence[Task]) -> str:
    prompts = {task.prompt_hash for task in train} & {task.prompt_hash for task in held_out}
    sources = {task.source for task in train if task.source} & {task.source for task in held_out if task.source}
    return f"in common between train and eval: {len(prompts)} prompts, {len(sources)} sources"
