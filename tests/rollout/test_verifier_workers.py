"""Verdicts that workers find are those that are found here, whichever worker dies."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from burnish.core.errors import SandboxError
from burnish.core.recipe import SandboxConfig, TaskEntry
from burnish.core.types import Task, Verdict
from burnish.domains import open_domain
from burnish.rollout.mixture import Source
from burnish.rollout.verification import Verification
from burnish.rollout.verifier_workers import VerifierWorkers
from burnish.runtime.local import Local
from tests.no_box import NoBox
from tests.runtime.jobs import pid


def sources() -> list[Source]:
    entries = [TaskEntry(domain="arithmetic", options={"largest": 3}), TaskEntry(domain="documents")]
    return [Source(entry=entry, domain=open_domain(entry.domain, entry.options)) for entry in entries]


@contextmanager
def workers(given: list[Source], num_workers: int) -> Iterator[VerifierWorkers]:
    opened = VerifierWorkers(Local(), given, SandboxConfig(), num_workers)
    try:
        yield opened
    finally:
        opened.close()


async def verdicts(given: list[Source], through: VerifierWorkers | None) -> list[Verdict]:
    """Of right and wrong replies to some tasks of each domain."""
    verification = Verification(NoBox(), num_at_once=2, verify=through and through.verify)
    asked: list[tuple[Source, Task, str]] = []
    for source in given:
        for index in range(4):
            task = source.domain.task("train", 1, index)
            asked += [(source, task, reply) for reply in (task.gold or "", "7", "nothing")]
    found = [await verification.submit(source.domain, task, reply) for source, task, reply in asked]
    return await asyncio.gather(*found)


def test_workers_find_what_is_found_here_and_a_killed_one_changes_nothing() -> None:
    given = sources()
    here = asyncio.run(verdicts(given, None))
    assert {verdict.kind for verdict in here} == {"scored"}
    assert len({verdict.score for verdict in here}) > 1
    with workers(given, 1) as through:
        assert asyncio.run(verdicts(given, through)) == here
        os.kill(through._pool.each(pid)[0], signal.SIGKILL)
        assert asyncio.run(verdicts(given, through)) == here
        assert through.num_lost == 1


def test_a_reply_that_takes_every_worker_down_is_no_verdict_but_a_fault_of_the_machinery() -> None:
    task = sources()[0].domain.task("train", 1, 0)
    entry = TaskEntry(domain="tests.rollout.deadly_domain")
    deadly = Source(entry=entry, domain=open_domain(entry.domain))
    with workers([deadly], 1) as through, pytest.raises(SandboxError, match="has lost 3 workers"):
        asyncio.run(through.verify(deadly.domain, task, "7", NoBox()))
