"""`burnish verify`: judge one reply, and explain the verdict part by part."""

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from burnish.commands.opening import box_for, open_named, split_named
from burnish.core.errors import ConfigError
from burnish.core.types import Task, Verdict
from burnish.core.visible import visible
from burnish.domains import Domain, HasSecondOpinion

_NUMBER = re.compile("[0-9]{1,20}")


def verify_command(name: str, task_id: str, reply_path: Path, options: Sequence[str], isolation: str) -> None:
    """Judge the reply in a file and print the verdict."""
    domain = open_named(name, options)
    task = find_task(domain, name, task_id)
    reply = _read(reply_path)
    judged = asyncio.run(_judge(domain, task, reply, isolation))
    typer.echo(explain(task, judged.verdict))
    if judged.second is not None:
        typer.echo(compare(judged.verdict, judged.second))


def find_task(domain: Domain, name: str, task_id: str) -> Task:
    """Make the task again that an id names."""
    owner, *rest = task_id.rsplit("/", 3)
    if owner != name or len(rest) != 3 or not all(map(_NUMBER.fullmatch, rest[1:])):
        raise ConfigError(f"task id {task_id!r}: expected {name}/SPLIT/SEED/INDEX, for example {name}/eval/1/0")
    split, seed, index = split_named(rest[0]), int(rest[1]), int(rest[2])
    size = domain.size(split)
    if size is not None and index >= size:
        raise ConfigError(f"task id {task_id!r}: index {index} is past the end; {split} has {size} tasks")
    return domain.task(split, seed, index)


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read the reply {str(path)!r}: {error}; give a text file, or - for standard input"
        ) from None


class Judged(NamedTuple):
    """A verdict, and what the domain's second implementation finds, where it has one for this reply."""

    verdict: Verdict
    second: Verdict | None


async def _judge(domain: Domain, task: Task, reply: str, isolation: str) -> Judged:
    async with box_for(domain, isolation) as box:
        verdict = await domain.verify(task, reply, box)
        if not isinstance(domain, HasSecondOpinion) or verdict.kind != "scored":
            return Judged(verdict, None)
        return Judged(verdict, await domain.second_opinion(task, reply, box))


def compare(verdict: Verdict, second: Verdict) -> str:
    """Whether the second opinion is the same."""
    word = "agrees" if second.score == verdict.score else f"disagrees: {second.kind}, score {second.score}"
    return f"second opinion {word}; {visible(second.evidence)}"


def explain(task: Task, verdict: Verdict) -> str:
    """A verdict as text: the score, how it came about, and the evidence."""
    score = "" if verdict.score is None else f", score {verdict.score:.4g}"
    lines = [f"{task.id}: {verdict.kind}{score}"]
    width = max(map(len, verdict.parts), default=0)
    lines += [f"  {part:{width}}  {value:.4g}" for part, value in verdict.parts.items()]
    if verdict.evidence:
        lines.append(f"evidence: {visible(verdict.evidence)}")
    return "\n".join(lines)
