"""Where faults can be: every mutation of a package's code that some stable test runs, and how faults are drawn.

Decisions: kinds take turns, so that the most frequent kind does not make most of the tasks. Several faults at once are
put together from single ones that were kept: each of them is known to be seen by tests of its own.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Final

from burnish.core.types import sha256_json
from burnish.data.mutations.edits import Edit, Mutation, apply
from burnish.data.mutations.find import mutations
from burnish.data.packages.survey import Coverage

HELD_OUT_KINDS: Final = frozenset({"exception_handling", "shuffled_statements", "removed_body"})
"""Kinds of faults that training never sees."""
FURTHEST_UP: Final = 6
"""Lines above that a fault within a statement of several lines may be counted by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One fault that a file can have, how many tests run it, and some of them."""

    file: str
    mutation: Mutation
    num_tests: int
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Faults to plant at once."""

    sites: tuple[Site, ...]

    @property
    def key(self) -> str:
        """The hash of what it changes: equal diffs are one."""
        return sha256_json(
            sorted(
                [site.file, edit.start, edit.before, edit.after] for site in self.sites for edit in site.mutation.edits
            )
        )

    @property
    def has_overlap(self) -> bool:
        """Whether its faults get in each other's way."""
        spans = sorted((site.file, edit.start, edit.end) for site in self.sites for edit in site.mutation.edits)
        return any(one[0] == two[0] and one[2] > two[1] for one, two in pairwise(spans))

    def changed(self, sources: Mapping[str, str]) -> dict[str, str] | None:
        """The changed files; None if the faults get in each other's way."""
        edits: dict[str, list[Edit]] = defaultdict(list)
        for site in self.sites:
            edits[site.file] += site.mutation.edits
        try:
            changed = {file: apply(sources[file], some) for file, some in edits.items()}
            for text in changed.values():
                ast.parse(text)
        except (ValueError, SyntaxError):
            return None
        return changed


def sites(sources: Mapping[str, str], coverage: Coverage) -> list[Site]:
    """List the faults that tests run, in the order of files and lines; the screen sorts out what is none."""
    found: list[Site] = []
    for file, source in sorted(sources.items()):
        for mutation in mutations(source, is_sure=False):
            above = range(mutation.line, max(0, mutation.line - FURTHEST_UP), -1)
            num, tests = next((one for line in above if (one := coverage.of(file, line))[0]), (0, ()))
            if num:
                found.append(Site(file=file, mutation=mutation, num_tests=num, tests=tests))
    return found


def singles(found: Sequence[Site], rng: Random) -> Iterator[Candidate]:
    """Single faults, each once: the kinds take turns, and each is shuffled."""
    by_kind: dict[str, list[Site]] = defaultdict(list)
    for site in found:
        by_kind[site.mutation.kind].append(site)
    for kind in sorted(by_kind):
        rng.shuffle(by_kind[kind])
    while by_kind:
        for kind in sorted(by_kind):
            yield Candidate(sites=(by_kind[kind].pop(),))
            if not by_kind[kind]:
                del by_kind[kind]


def combinations(kept: Sequence[Site], rng: Random, most: int) -> Iterator[Candidate]:
    """Two to four of the faults that were kept, half of the time of one module only."""
    for _ in range(most):
        first = rng.choice(kept)
        near = [site for site in kept if site.file == first.file and site is not first]
        far = [site for site in kept if site is not first]
        pool = near if near and rng.random() < 0.5 else far
        if pool:
            others = rng.sample(pool, min(len(pool), rng.choice((1, 1, 2, 3))))
            yield Candidate(sites=tuple(sorted((first, *others), key=_place)))


def _place(site: Site) -> tuple[str, int, str]:
    return site.file, site.mutation.edits[0].start, site.mutation.kind
