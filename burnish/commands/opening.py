"""Open a domain, and a box where its grader needs one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from burnish.core.config import override
from burnish.core.errors import ConfigError, SandboxError
from burnish.core.types import SPLITS, Isolation, Split
from burnish.domains import Domain, open_domain
from burnish.sandbox import Box, Job, Outcome, backends, open_box


def open_named(name: str, assignments: Sequence[str]) -> Domain:
    """Open a domain with options given as KEY=VALUE."""
    return open_domain(name, override({}, list(assignments)))


def split_named(word: str) -> Split:
    """Read the name of a split."""
    if word not in SPLITS:
        raise ConfigError(f"no split {word!r}; there are: {', '.join(SPLITS)}")
    return word


@asynccontextmanager
async def box_for(domain: Domain, isolation: str, num_workers: int = 1) -> AsyncIterator[Box]:
    """Open a box if the domain's grader runs what the policy wrote, so that other domains need none."""
    known = backends.names()
    if isolation not in known and "." not in isolation:
        raise ConfigError(f"no isolation {isolation!r}; there are: {', '.join(known)}")
    if not domain.executes_code:
        yield _NoBox()
        return
    async with open_box(isolation, num_workers) as box:
        yield box


class _NoBox:
    """What a domain gets that says it executes no code."""

    isolation: Isolation = "none"

    async def run(self, job: Job) -> Outcome:
        raise SandboxError(
            "the domain says that it executes no code, and its grader asked for a box; it is a bug of the domain"
        )

    async def stop(self) -> None:
        pass
