"""The texts that train: what a recipe would show, what a run has shown, what a file holds. For `evals.contamination`.

- A recipe: the messages and correct replies of its first training tasks, of each source `num` at the seed of each stage
  that trains; of a finite source all.
- A run folder: that of its recipe, and every reply in `trajectories/`.
- A `.jsonl` file: every text in every row. Any other file: its paragraphs.

Not covered: files that stages of a recipe name (give them by themselves), what a model had seen before.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from burnish.core import plugins
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, read_recipe
from burnish.core.run_folder import kept_recipe
from burnish.core.seeds import derive
from burnish.core.types import Json, Task
from burnish.data import trajectory_files
from burnish.rollout.mixture import Source
from burnish.stages.session import open_sources


class Text(NamedTuple):
    """A text, and how it is found again."""

    name: str
    text: str


def training_texts(path: Path, num: int) -> Iterator[Text]:
    """All texts of a recipe, a run folder or a file."""
    if path.is_dir():
        if not (path / "recipe.resolved.json").is_file():
            raise ConfigError(f"{str(path)!r} is no run folder; give a recipe, a run folder or a file of texts")
        yield from of_recipe(kept_recipe(path), num)
        yield from _replies(path)
    elif path.suffix == ".toml":
        yield from of_recipe(read_recipe(path), num)
    else:
        yield from _of_file(path)


def of_recipe(recipe: Recipe, num: int) -> Iterator[Text]:
    """The tasks that a recipe's stages train on."""
    seeds = [derive(recipe.seed, "train", place) for place, stage in enumerate(recipe.stages) if _trains(stage["use"])]
    for source in open_sources(recipe.tasks, recipe.sandbox, Console(quiet=True)):
        for task in _tasks(source, seeds, num):
            yield from texts_of(task)


def _trains(use: str) -> bool:
    return hasattr(plugins.load("stages", use), "TRAINS")


def _tasks(source: Source, seeds: list[int], num: int) -> Iterator[Task]:
    """Of a finite source all tasks, once; else the first of each seed."""
    size = source.domain.size("train")
    for seed in seeds[:1] if size is not None else seeds:
        yield from (source.domain.task("train", seed, index) for index in range(num if size is None else size))


def texts_of(task: Task) -> Iterator[Text]:
    """A task's messages, the asked one first, and its correct reply."""
    for message in reversed(task.messages):
        yield Text(task.id, message.content)
    if task.gold is not None:
        yield Text(f"{task.id} (correct reply)", task.gold)


def _replies(run: Path) -> Iterator[Text]:
    for file in sorted((run / "trajectories").glob("*.parquet")):
        for trajectory in trajectory_files.read(file):
            yield Text(f"{trajectory.task_id} (reply {trajectory.member} in {file.name})", trajectory.reply)


def _of_file(path: Path) -> Iterator[Text]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read {str(path)!r}: {error}; give a recipe, a run folder or a file of texts"
        ) from None
    if path.suffix != ".jsonl":
        yield from (
            Text(f"{path}, paragraph {n}", each) for n, each in enumerate(text.split("\n\n"), 1) if each.strip()
        )
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield from (Text(f"{path}:{number}", each) for each in _strings(_parsed(line, f"{path}:{number}")))


def _parsed(line: str, where: str) -> Json:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: no JSON: {error}; expected one value on the line") from None


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
