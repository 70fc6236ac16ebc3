"""`burnish tasks list | show | sample`: what there is to learn, as a person reads it."""

import json
import re
from collections.abc import Sequence

import typer

from burnish.commands.opening import open_named, split_named
from burnish.core import plugins
from burnish.core.errors import ConfigError
from burnish.core.types import Task
from burnish.core.visible import visible

PARAGRAPHS = ("State", "Action", "Reward")


def list_domains() -> None:
    """Print each domain with the first line of its docstring; nothing is imported."""
    names = plugins.names("domains")
    width = max(map(len, names), default=0)
    for name in names:
        typer.echo(f"{name:{width}}  {plugins.docstring('domains', name).partition(chr(10))[0]}")


def show_domain(name: str) -> None:
    """Print a domain's first line and its state, action and reward."""
    plugin = name.partition(":")[0]
    text = plugins.docstring("domains", plugin)
    found = paragraphs(text)
    missing = [word for word in PARAGRAPHS if word not in found]
    if missing:
        raise ConfigError(f"domain {plugin!r}: its docstring has no paragraph that begins with {', '.join(missing)}")
    typer.echo("\n\n".join([f"{name}: {text.partition(chr(10))[0]}", *found.values()]))


def paragraphs(docstring: str) -> dict[str, str]:
    """The paragraphs that begin with State, Action and Reward, by that word."""
    starts = re.compile(rf"^(?=\**(?:{'|'.join(PARAGRAPHS)})\b)", re.MULTILINE)
    blocks = [block.strip() for part in docstring.split("\n\n") for block in starts.split(part)]
    found = {word: block for word in PARAGRAPHS for block in blocks if block.lstrip("*").startswith(word)}
    return {word: found[word] for word in PARAGRAPHS if word in found}


def sample_domain(name: str, num: int, seed: int, split: str, options: Sequence[str]) -> None:
    """Print tasks with their truth and gold."""
    domain = open_named(name, options)
    chosen = split_named(split)
    size = domain.size(chosen)
    if size == 0:
        raise ConfigError(f"domain {name!r} has no tasks in {chosen}; it only evaluates: --split eval")
    for index in range(num if size is None else min(num, size)):
        typer.echo(visible(describe(domain.task(chosen, seed, index))))


def describe(task: Task) -> str:
    """A task as text."""
    lines = [f"=== {task.id}", f"source: {task.source or '-'}   tags: {', '.join(task.tags) or '-'}"]
    lines += [f"--- {message.role}\n{message.content}" for message in task.messages]
    lines.append(f"--- truth (hidden)\n{json.dumps(dict(task.truth), ensure_ascii=False, indent=2)}")
    lines.append(f"--- gold\n{task.gold if task.gold is not None else '(the domain knows none)'}")
    return "\n".join(lines) + "\n"
