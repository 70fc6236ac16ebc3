"""Make the tasks' faults of one package: survey it, try candidates in a fixed order, stop at the number that is wanted.

Decisions: the order depends on the seed and the package alone and an outcome on the diff alone, so a build that was
killed, goes on with more workers or wants more tasks keeps what was there before. A quarter of the faults are several
at once, drawn from the single ones that were kept. The tries are bounded: a package may give fewer than wanted.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from burnish.core.seeds import derive
from burnish.data.packages.catalogue import Tree
from burnish.data.packages.sites import Candidate, Site, combinations, singles, sites
from burnish.data.packages.survey import Coverage, RunTests, coverage, survey
from burnish.data.packages.trial import Trial, Trials, attempt
from burnish.sandbox import Backend, Box

SINGLE_SHARE: Final = 0.75
MOST_TRIES: Final = 6
"""Tries for each task that is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a package gave: the faults that make tasks, and how many of which outcome there were."""

    tree: Tree
    kept: tuple[Trial, ...]
    counts: dict[str, int]
    num_tests: int
    num_unstable: int
    num_sites: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What trying takes: the package, its tests, a box, and where outcomes are kept."""

    tree: Tree
    coverage: Coverage
    box: Box
    run_tests: RunTests
    trials: Trials
    num_workers: int
    tell: Callable[[Trial], None]

    async def until(self, candidates: Iterator[Candidate], num: int, most: int) -> list[tuple[Candidate, Trial]]:
        """Try candidates in their order, some at once, until `num` are kept or `most` were tried."""
        tried: list[tuple[Candidate, Trial]] = []
        while sum(trial.status == "kept" for _, trial in tried) < num and len(tried) < most:
            batch = list(islice(candidates, self.num_workers))
            if not batch:
                break
            tried += zip(batch, await asyncio.gather(*map(self._one, batch)), strict=True)
        return _first(tried, num)

    async def _one(self, candidate: Candidate) -> Trial:
        known = self.trials.get(candidate.key)
        if known is None:
            known = await attempt(self.tree, self.coverage, candidate, self.box, self.run_tests)
            self.trials.add(known)
            self.tell(known)
        return known


async def build(
    tree: Tree,
    num: int,
    seed: int,
    box: Backend,
    run_tests: RunTests,
    work: Path,
    *,
    num_workers: int = 2,
    tell: Callable[[Trial], None] = lambda _: None,
) -> Built:
    """Find `num` faults of a package that make tasks; `work` keeps the survey and what was tried."""
    folder = work / f"{tree.package.name}-{tree.package.version}-{tree.package.sha256[:12]}"
    found = await survey(tree, box, run_tests, folder / "survey.json")
    lines = coverage(found)
    places = sites(tree.sources, lines)
    tries = Tries(
        tree=tree,
        coverage=lines,
        box=box,
        run_tests=run_tests,
        trials=Trials(folder / "trials.jsonl"),
        num_workers=num_workers,
        tell=tell,
    )
    rng = Random(derive(seed, "faults of", tree.package.source))
    num_single = num if num < 4 else round(num * SINGLE_SHARE)
    single = await tries.until(singles(places, rng), num_single, num_single * MOST_TRIES)
    kept = _kept(single)
    several: list[tuple[Candidate, Trial]] = []
    if len(kept) > 1 and num > num_single:
        several = await tries.until(_new(combinations(kept, rng, 10 * num)), num - num_single, 2 * num)
    tried = [trial for _, trial in (*single, *several)]
    return Built(
        tree=tree,
        kept=tuple(trial for trial in tried if trial.status == "kept"),
        counts=_counts(tried),
        num_tests=len(found.ids),
        num_unstable=found.num_unstable,
        num_sites=len(places),
    )


def _first(tried: Sequence[tuple[Candidate, Trial]], num: int) -> list[tuple[Candidate, Trial]]:
    """What was tried up to the `num`-th that was kept, however many were tried at once."""
    found: list[tuple[Candidate, Trial]] = []
    for one in tried:
        if num == 0:
            break
        found.append(one)
        num -= one[1].status == "kept"
    return found


def _kept(tried: Sequence[tuple[Candidate, Trial]]) -> list[Site]:
    return [candidate.sites[0] for candidate, trial in tried if trial.status == "kept"]


def _new(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """Each diff once."""
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.key not in seen:
            seen.add(candidate.key)
            yield candidate


def _counts(tried: Sequence[Trial]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for trial in tried:
        counts[trial.status] = counts.get(trial.status, 0) + 1
    return counts
