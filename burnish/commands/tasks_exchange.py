"""`burnish tasks import` and `burnish tasks export`: tasks of other systems in, ours out as Harbor folders."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import SPLITS, Split
from burnish.data import harbor, swe
from burnish.domains.terminal.harbor_export import to_harbor
from burnish.domains.terminal.harbor_import import from_harbor
from burnish.domains.terminal.spec import TerminalTask
from burnish.domains.terminal.store import open_store
from burnish.domains.terminal.store_writer import StoreWriter, writing
from burnish.domains.terminal.swe_import import from_swe, source_tree

MOST_TOLD: Final = 20


def import_command(path: Path, out: Path, sources: Path | None) -> None:
    """Import what can run here; say of the rest why it cannot."""
    refused: list[str] = []
    with writing(out) as writer:
        num = sum(writer.add(split_of(task), task) for task in _read(path, writer, sources, refused))
        for why in refused[:MOST_TOLD]:
            typer.echo(f"left out: {why}", err=True)
        if len(refused) > MOST_TOLD:
            typer.echo(f"left out: {len(refused) - MOST_TOLD} more", err=True)
        if not num:
            raise ConfigError(f"no task of {str(path)!r} can run here; {len(refused)} were left out")
    typer.echo(f"{num} tasks in {out}, {len(refused)} left out")


def split_of(task: TerminalTask) -> Split:
    """A fifth of all sources evaluates, whole: a hash of the source says which."""
    return "eval" if derive(0, "split of an imported task", task.source) % 5 == 0 else "train"


def export_command(store: Path, out: Path, split: str, num: int | None) -> None:
    """Write tasks of a store as Harbor folders."""
    if split not in SPLITS:
        raise ConfigError(f"no split {split!r}; there are: {', '.join(SPLITS)}")
    opened = open_store(store)
    size = opened.size(split)
    for number in range(size if num is None else min(num, size)):
        task = opened.task(split, number)
        folder = opened.base_folder(task.base) if task.base else None
        base = (
            {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            if folder
            else {}
        )
        name = f"{task.family.replace(':', '-')}-{split}-{number:05d}"
        harbor.write_folder(out / name, *to_harbor(task, base, f"burnish/{name}"))
    typer.echo(f"{size if num is None else min(num, size)} task folders in {out}")


def _read(path: Path, writer: StoreWriter, sources: Path | None, refused: list[str]) -> Iterator[TerminalTask]:
    if not path.exists():
        raise ConfigError(f"no {str(path)!r}; give a JSONL file of rows, or a folder with task folders")
    if path.is_file():
        for row in swe.read_rows(path):
            try:
                tree = source_tree(row, sources)
                yield from_swe(row, tree, writer.add_base(tree))
            except ConfigError as error:
                refused.append(str(error))
        return
    found = list(harbor.folders(path))
    if not found:
        raise ConfigError(
            f"{str(path)!r} has no task folder: none with a task.toml (Harbor) or task.yaml (terminal-bench)"
        )
    for folder in found:
        try:
            yield from_harbor(harbor.read_folder(folder))
        except ConfigError as error:
            refused.append(str(error))
