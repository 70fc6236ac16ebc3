"""Verdicts found by workers: each has the run's domains and a box of its own, and judges one reply at a time.

`Verification` queues, caches and tries again; only the call of a domain's verifier goes to a worker. A worker that dies
is replaced and its reply judged again; a reply that takes its worker down each time ends as an infrastructure error,
which never trains. A verifier that holds its worker for longer than the task's limit, and `_GRACE_S` more, loses it;
the verdict is a timeout. Where no worker can be started any more, the run ends (`PoolBroken`).

Domains are opened in the workers by the recipe's words, so a file that they name must be there on each host.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from burnish.core.errors import SandboxError
from burnish.core.recipe import SandboxConfig, TaskEntry
from burnish.core.types import Task, Verdict
from burnish.domains import Domain, open_domain
from burnish.rollout.mixture import Source
from burnish.rollout.verification import Verify
from burnish.runtime.local import Background
from burnish.runtime.types import Runtime
from burnish.runtime.workers import Pool, WorkerLost
from burnish.sandbox import Box, open_box

_GRACE_S = 10.0
"""For a busy host: a verifier that gives way ends itself at the task's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierConfig:
    """What a worker opens: the domains of these entries, in `folder`, and a box if one of them executes code."""

    entries: tuple[TaskEntry, ...]
    sandbox: SandboxConfig
    folder: str


class Verifier:
    """What lives in a worker."""

    def __init__(self, domains: Sequence[Domain], box: Box, background: Background) -> None:
        self._domains, self._box, self._background = domains, box, background

    def verify(self, domain: int, task: Task, reply: str) -> Verdict:
        """Judge a reply to a task of the domain of that number."""
        return self._background.run(self._within(domain, task, reply))

    async def _within(self, domain: int, task: Task, reply: str) -> Verdict:
        async with asyncio.timeout(task.limits.verify_wall_s):
            return await self._domains[domain].verify(task, reply, self._box)


@contextmanager
def open_verifier(config: VerifierConfig) -> Iterator[Verifier]:
    """The state of a worker that verifies."""
    os.chdir(config.folder)
    domains = [open_domain(entry.domain, entry.options) for entry in config.entries]
    executes_code = any(domain.executes_code for domain in domains)
    isolation, options = (config.sandbox.isolation, config.sandbox.options) if executes_code else ("none", {})
    with Background() as background:
        opening = open_box(isolation, num_workers=1, options=options)
        box = background.run(opening.__aenter__())
        try:
            yield Verifier(domains, box, background)
        finally:
            background.run(opening.__aexit__(None, None, None))


class VerifierWorkers:
    """See the module's docstring."""

    def __init__(
        self, runtime: Runtime, sources: Sequence[Source], sandbox: SandboxConfig, num_workers: int, *,
        grace_s: float = _GRACE_S, tell: Callable[[str], object] = lambda message: None,
    ) -> None:  # fmt: skip
        self._grace_s = grace_s
        self._number_of = {id(source.domain): number for number, source in enumerate(sources)}
        self._sources = sources  # so that ids stay theirs
        entries = tuple(source.entry for source in sources)
        config = VerifierConfig(entries=entries, sandbox=sandbox, folder=os.getcwd())
        start = runtime.crew("verifier", lambda number: partial(open_verifier, config), num_workers)
        self._pool = Pool(start, num_workers, most_waiting=2 * num_workers, tell=tell)

    @property
    def num_lost(self) -> int:
        """How many workers died so far."""
        return self._pool.num_lost

    async def verify(self, domain: Domain, task: Task, reply: str, box: Box) -> Verdict:
        """Have a worker judge a reply; `box` is not used, a worker has its own."""
        work = partial(Verifier.verify, domain=self._number_of[id(domain)], task=task, reply=reply)
        timeout_s = task.limits.verify_wall_s + self._grace_s
        try:
            return await asyncio.wrap_future(await asyncio.to_thread(self._pool.submit, work, timeout_s=timeout_s))
        except WorkerLost as lost:
            raise SandboxError(str(lost)) from lost

    def close(self) -> None:
        """End the workers; safe to call twice."""
        self._pool.stop()


@contextmanager
def open_verifiers(
    runtime: Runtime, sources: Sequence[Source], sandbox: SandboxConfig, num_workers: int
) -> Iterator[Verify]:
    """What calls a domain's verifier in one of so many workers, while the block lasts; lost ones are told on stderr."""
    workers = VerifierWorkers(
        runtime, sources, sandbox, num_workers, tell=lambda message: sys.stderr.write(f"{message}\n")
    )
    try:
        yield workers.verify
    finally:
        workers.close()
