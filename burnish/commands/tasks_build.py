"""`burnish tasks build`: small tasks of the ladder, or tasks from real packages, as a folder for `terminal:PATH`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import typer

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Split
from burnish.data.packages import fetch
from burnish.data.packages.build import Built, build
from burnish.data.packages.catalogue import SHIPPED, Package, Tree, lay_out, read_catalogue
from burnish.data.packages.copies import copies
from burnish.data.packages.survey import Refused
from burnish.data.packages.trial import Trial
from burnish.domains.terminal import families, package_tasks
from burnish.domains.terminal.store_writer import StoreWriter, writing
from burnish.sandbox import Backend, open_box

KINDS: Final = ("ladder", "packages")
EVAL_SHARE: Final = 0.2


def build_command(
    kind: str,
    out: Path,
    num: int,
    seed: int,
    only: Sequence[str],
    work: Path | None,
    index: str,
    isolation: str,
    workers: int,
) -> None:
    """Build tasks of a kind."""
    if kind not in KINDS:
        raise ConfigError(f"no kind {kind!r} of tasks to build; there are: {', '.join(KINDS)}")
    if out.exists():
        raise ConfigError(f"{str(out)!r} exists; name a folder that does not, or remove it")
    if kind == "ladder":
        build_ladder(out, num, seed, only)
        return
    packages = read_catalogue(SHIPPED, only)
    folder = work or out.with_name(f"{out.name}.work")
    built = asyncio.run(_build_packages(packages, num, seed, folder, index, isolation, workers))
    with writing(out) as writer:
        for one in built:
            _write(writer, one)
    typer.echo(f"{sum(len(one.kept) for one in built)} tasks of {len(built)} packages in {out}")


def build_ladder(out: Path, num: int, seed: int, only: Sequence[str]) -> None:
    """Write `num` tasks of the ladder, a fifth of them for evaluation: families and levels take turns."""
    chosen = [families.family(name) for name in only or families.names()]
    with writing(out) as writer:
        for split, share in (("train", 1 - EVAL_SHARE), ("eval", EVAL_SHARE)):
            turns = [(one, level) for one in chosen for level in one.levels if split == "eval" or not one.is_held_out]
            _fill(writer, turns, split, round(num * share), seed)  # type: ignore[arg-type] # the two splits, spelled out
    typer.echo(f"{num} tasks of {len(chosen)} families in {out}")


def _fill(writer: StoreWriter, turns: Sequence[tuple[families.Family, int]], split: Split, num: int, seed: int) -> None:
    number = written = 0
    while written < num:
        one, level = turns[number % len(turns)]
        rng = Random(derive(seed, "ladder", split, number))
        written += writer.add(split, families.draw(one, rng, level, split))
        number += 1
        if number > 20 * num + len(turns):
            raise ConfigError(
                f"these families have no {num} different tasks for {split!r}; ask for fewer, or take more families"
            )


async def _build_packages(
    packages: Sequence[Package], num: int, seed: int, work: Path, index: str, isolation: str, workers: int
) -> list[Built]:
    trees = [lay_out(package, fetch.sdist(package, work / "sdists", index)) for package in packages]
    async with open_box(isolation, num_workers=workers) as box:
        seen = await copies(trees, box)
        for name, where in seen.items():
            typer.echo(f"left out: {name}: a place sees a copy of it, {where!r}, the answer to all its tasks", err=True)
        usable = [tree for tree in trees if tree.package.name not in seen]
        built = await spread(usable, num, lambda tree, share: _build_one(tree, share, seed, box, work, workers))
    if not built:
        raise ConfigError(f"none of {len(packages)} packages can be used here; the lines above say why")
    return built


async def spread(
    trees: Sequence[Tree], num: int, build_one: Callable[[Tree, int], Awaitable[Built | None]]
) -> list[Built]:
    """Ask each package for its share; what some cannot give, the others are asked for."""
    asked, built = {tree.package.name: 0 for tree in trees}, dict[str, Built]()
    able, missing = list(trees), num
    while able and missing > 0:
        for number, tree in enumerate(able):
            name = tree.package.name
            asked[name] += missing // len(able) + (number < missing % len(able))
            if asked[name] and (one := await build_one(tree, asked[name])) is not None:
                built[name] = one
        able = [
            tree for tree in able if (one := built.get(tree.package.name)) and len(one.kept) == asked[tree.package.name]
        ]
        missing = num - sum(len(one.kept) for one in built.values())
    return list(built.values())


async def _build_one(tree: Tree, num: int, seed: int, box: Backend, work: Path, workers: int) -> Built | None:
    """Build from one package; None if it is refused, which is said."""
    progress = Progress(tree.package.name, num)
    try:
        one = await build(
            tree, num, seed, box, package_tasks.runner(tree, box), work, num_workers=workers, tell=progress.tell
        )
    except Refused as error:
        typer.echo(f"left out: {error}", err=True)
        return None
    counts = ", ".join(f"{name} {count}" for name, count in sorted(one.counts.items()))
    about = one.summary
    typer.echo(
        f"{tree.package.name} {tree.package.version}: {about.num_tests} stable tests ({about.num_unstable} not), "
        f"{about.num_sites} sites, {counts}; {progress.seconds:.0f} s, {progress.num_tried} tried now"
    )
    return one


class Progress:
    """One line a wave of tries."""

    def __init__(self, name: str, num: int) -> None:
        self._name, self._num = name, num
        self._started = time.monotonic()
        self.num_tried = self._num_kept = 0

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def tell(self, tried: Sequence[Trial]) -> None:
        """Say how far it is."""
        self.num_tried += len(tried)
        self._num_kept += sum(trial.status == "kept" for trial in tried)
        if tried:
            each = self.seconds / self.num_tried
            line = f"{self.num_tried} tried now, {self._num_kept} kept of {self._num} wanted, {each:.1f} s a try"
            typer.echo(f"{self._name}: {line}", err=True)


def _write(writer: StoreWriter, built: Built) -> None:
    base = writer.add_base(built.tree.files)
    for trial in built.kept:
        writer.add(package_tasks.split_of(built.tree, trial), package_tasks.task_of(built.tree, trial, base))
