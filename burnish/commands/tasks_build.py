"""`burnish tasks build`: small tasks of the ladder, or tasks from real packages, as a folder for `terminal:PATH`."""

import asyncio
import time
from collections.abc import Sequence
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
    built: list[Built] = []
    async with open_box(isolation, num_workers=workers) as box:
        for number, package in enumerate(packages):
            share = num // len(packages) + (number < num % len(packages))
            tree = lay_out(package, fetch.sdist(package, work / "sdists", index))
            built.append(await _build_one(tree, share, seed, box, work, workers))
    return built


async def _build_one(tree: Tree, num: int, seed: int, box: Backend, work: Path, workers: int) -> Built:
    started, tried = time.monotonic(), [0]

    def tell(trial: Trial) -> None:
        tried[0] += 1
        if tried[0] % 20 == 0:
            typer.echo(
                f"{tree.package.name}: {tried[0]} tried, {(time.monotonic() - started) / tried[0]:.1f} s each", err=True
            )

    run_tests = package_tasks.runner(tree, box)
    one = await build(tree, num, seed, box, run_tests, work, num_workers=workers, tell=tell)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(one.counts.items()))
    typer.echo(
        f"{tree.package.name} {tree.package.version}: {one.num_tests} stable tests ({one.num_unstable} not), "
        f"{one.num_sites} sites, {counts}; {time.monotonic() - started:.0f} s, {tried[0]} tried now"
    )
    return one


def _write(writer: StoreWriter, built: Built) -> None:
    base = writer.add_base(built.tree.files)
    for trial in built.kept:
        writer.add(package_tasks.split_of(built.tree, trial), package_tasks.task_of(built.tree, trial, base))
