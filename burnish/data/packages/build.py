"""Make the tasks' faults of one package: survey it, try candidates in a fixed order, stop at the number that is wanted.

Decisions: the order depends on the seed and the package alone and an outcome on the diff alone, so a build that was
killed, goes on with more workers or wants more tasks keeps what was there before. Candidates are tried in waves: the
screens of a wave run side by side, then the confirming runs of what they let through. A quarter of the faults are
several at once, drawn from the single ones that were kept. The tries are bounded: a package may give fewer than wanted.
A build that ended is known again by its seed and number, and costs the reading of its trials.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from pydantic import ValidationError

from burnish.core.config import Strict
from burnish.core.seeds import derive
from burnish.data.packages.catalogue import Tree
from burnish.data.packages.screen import VERSION, Screened, screen
from burnish.data.packages.sites import Candidate, combinations, singles, sites
from burnish.data.packages.survey import Coverage, RunTests, coverage, key, survey
from burnish.data.packages.trial import Trial, Trials, confirm, screened
from burnish.sandbox import Box

SINGLE_SHARE: Final = 0.75
MOST_TRIES: Final = 6
"""Tries for each task that is wanted."""
TRIES_PER_TASK: Final = 1.6
"""About how many it takes: what a wave begins with."""
LARGEST_SCREEN: Final = 40
"""Faults in one box."""


class Summary(Strict):
    """What a build that ended leaves, so that the next of the same seed and number need not look for sites."""

    tried: tuple[str, ...]
    num_tests: int
    num_unstable: int
    num_sites: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a package gave: the faults that make tasks among those that were tried."""

    tree: Tree
    tried: tuple[Trial, ...]
    summary: Summary

    @property
    def kept(self) -> tuple[Trial, ...]:
        """The faults that make tasks."""
        return tuple(trial for trial in self.tried if trial.status == "kept")

    @property
    def counts(self) -> dict[str, int]:
        """How many tries had which outcome."""
        counts: dict[str, int] = {}
        for trial in self.tried:
            counts[trial.status] = counts.get(trial.status, 0) + 1
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What trying takes: the package, its tests, a box, and where outcomes are kept."""

    tree: Tree
    coverage: Coverage
    box: Box
    run_tests: RunTests
    trials: Trials
    num_workers: int
    tell: Callable[[Sequence[Trial]], None]

    async def until(self, candidates: Iterator[Candidate], num: int, most: int) -> list[tuple[Candidate, Trial]]:
        """Try candidates in their order, some at once, until `num` are kept or `most` were tried."""
        tried: list[tuple[Candidate, Trial]] = []
        while (missing := num - sum(trial.status == "kept" for _, trial in tried)) > 0 and len(tried) < most:
            size = min(math.ceil(TRIES_PER_TASK * missing), LARGEST_SCREEN * self.num_workers, most - len(tried))
            wave = list(islice(candidates, size))
            if not wave:
                break
            new = [one for one in wave if self.trials.get(one.key) is None]
            for one in (one for one in new if one.has_overlap):
                self._keep(screened(one, "conflict"))
            await self._try([one for one in new if not one.has_overlap])
            tried += [(one, trial) for one in wave if (trial := self.trials.get(one.key))]
        return _first(tried, num)

    async def _try(self, wave: Sequence[Candidate]) -> None:
        size = math.ceil(len(wave) / self.num_workers)
        parts = [wave[at : at + size] for at in range(0, len(wave), size)] if wave else []
        found = await asyncio.gather(*(screen(self.tree, self.coverage, self.box, part) for part in parts))
        looks = list(zip(wave, [each for part in found for each in part], strict=True))
        done = [self._keep(screened(one, each.look)) for one, each in looks if each.look != "seen"]
        seen = ((one, each) for one, each in looks if each.look == "seen")
        confirming = asyncio.Semaphore(self.num_workers)
        done += await asyncio.gather(*(self._confirm(one, each, confirming) for one, each in seen))
        self.tell(done)

    async def _confirm(self, candidate: Candidate, found: Screened, confirming: asyncio.Semaphore) -> Trial:
        async with confirming:
            return self._keep(await confirm(self.tree, self.coverage, candidate, found, self.run_tests))

    def _keep(self, trial: Trial) -> Trial:
        self.trials.add(trial)
        return trial


async def build(
    tree: Tree,
    num: int,
    seed: int,
    box: Box,
    run_tests: RunTests,
    work: Path,
    *,
    num_workers: int = 2,
    tell: Callable[[Sequence[Trial]], None] = lambda _: None,
) -> Built:
    """Find `num` faults of a package that make tasks; `work` keeps the survey and what was tried."""
    folder = folder_of(tree, work)
    trials, before = Trials(folder / f"trials-{VERSION}.jsonl"), folder / f"built-{seed}-{num}.json"
    if (built := _built_before(tree, before, trials)) is not None:
        return built
    found = await survey(tree, box, run_tests, folder / "survey.json")
    lines = coverage(found)
    places = sites(tree.sources, lines)
    tries = Tries(
        tree=tree,
        coverage=lines,
        box=box,
        run_tests=run_tests,
        trials=trials,
        num_workers=num_workers,
        tell=tell,
    )
    rng = Random(derive(seed, "faults of", tree.package.source))
    num_single = num if num < 4 else round(num * SINGLE_SHARE)
    single = await tries.until(_new(singles(places, rng)), num_single, num_single * MOST_TRIES)
    kept = [candidate.sites[0] for candidate, trial in single if trial.status == "kept"]
    several: list[tuple[Candidate, Trial]] = []
    if len(kept) > 1 and num > len(kept):
        several = await tries.until(_new(combinations(kept, rng, 10 * num)), num - num_single, 2 * num)
    tried = tuple(trial.key for _, trial in (*single, *several))
    summary = Summary(tried=tried, num_tests=len(found.ids), num_unstable=found.num_unstable, num_sites=len(places))
    before.write_text(summary.model_dump_json(), encoding="utf-8")
    built = _built_before(tree, before, trials)
    assert built is not None
    return built


def _built_before(tree: Tree, path: Path, trials: Trials) -> Built | None:
    """What a build of the same seed and number found; None if there was none."""
    try:
        summary = Summary.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    tried = tuple(trial for name in summary.tried if (trial := trials.get(name)))
    if len(tried) < len(summary.tried):
        return None
    return Built(tree=tree, tried=tried, summary=summary)


def folder_of(tree: Tree, work: Path) -> Path:
    """Where a package's survey and trials are kept: by its content and what the survey depends on."""
    return work / f"{tree.package.name}-{tree.package.version}-{key(tree)[:12]}"


def _first(tried: Sequence[tuple[Candidate, Trial]], num: int) -> list[tuple[Candidate, Trial]]:
    """What was tried up to the `num`-th that was kept, however many were tried at once."""
    found: list[tuple[Candidate, Trial]] = []
    for one in tried:
        if num == 0:
            break
        found.append(one)
        num -= one[1].status == "kept"
    return found


def _new(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """Each diff once."""
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.key not in seen:
            seen.add(candidate.key)
            yield candidate
