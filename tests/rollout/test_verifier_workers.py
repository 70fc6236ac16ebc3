"""Verdicts that workers find are those that are found here, whichever worker dies."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from burnish.core.errors import SandboxError
from burnish.core.recipe import SandboxConfig, TaskEntry
from burnish.core.types import Task, Verdict
from burnish.domains import open_domain
from burnish.rollout.mixture import Source
from burnish.rollout.verification import Verification
from burnish.rollout.verifier_workers import VerifierWorkers
from burnish.runtime.local import Local
from burnish.runtime.workers import PoolBroken
from burnish.sandbox import missing
from tests.no_box import NoBox
from tests.runtime.jobs import pid
from tests.runtime.test_processes import comes_true, descendants, is_gone


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


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason="this host cannot isolate")
def test_code_runs_in_a_sandbox_that_a_worker_has_opened_and_a_killed_worker_leaves_none() -> None:
    entry = TaskEntry(domain="code")
    source = Source(entry=entry, domain=open_domain(entry.domain))
    task = source.domain.task("train", 1, 0)
    with workers([source], 1) as through:
        (number,) = through._pool.each(pid)
        for reply, score in ((task.gold or "", 1.0), ("```python\nraise SystemExit\n```", 0.0)):
            assert asyncio.run(through.verify(source.domain, task, reply, NoBox())).score == score
        of_worker = descendants(number)
        assert of_worker
        os.kill(number, signal.SIGKILL)
        assert comes_true(lambda: all(is_gone(one) for one in of_worker))
        assert asyncio.run(through.verify(source.domain, task, task.gold or "", NoBox())).score == 1.0


def test_a_reply_that_takes_every_worker_down_is_no_verdict_but_a_fault_of_the_machinery() -> None:
    task = sources()[0].domain.task("train", 1, 0)
    entry = TaskEntry(domain="tests.rollout.deadly_domain")
    deadly = Source(entry=entry, domain=open_domain(entry.domain))
    with workers([deadly], 1) as through, pytest.raises(SandboxError, match="has lost 3 workers"):
        asyncio.run(through.verify(deadly.domain, task, "7", NoBox()))


def test_a_verifier_that_never_gives_way_times_out_and_its_worker_is_replaced() -> None:
    task = sources()[0].domain.task("train", 1, 0)
    task = replace(task, limits=replace(task.limits, verify_wall_s=0.1))
    entry = TaskEntry(domain="tests.rollout.deadly_domain:holds")
    holding = Source(entry=entry, domain=open_domain(entry.domain))
    through = VerifierWorkers(Local(), [holding], SandboxConfig(), 1, grace_s=0.3)
    try:
        verification = Verification(NoBox(), num_at_once=1, num_attempts=1, verify=through.verify)
        assert asyncio.run(verification.verdict(holding.domain, task, "7")).kind == "timeout"
        assert comes_true(lambda: through.num_lost == 1)
        assert through._pool.each(pid)
        assert through.num_lost == 1  # it was not given the same reply again
    finally:
        through.close()


class NoStart:
    """A host on which no worker starts any more once it is full."""

    host, is_full = "127.0.0.1", False

    def crew(self, *given: Any, **named: Any) -> Any:
        start = Local().crew(*given, **named)

        def try_to(number: int) -> Any:
            if self.is_full:
                raise OSError("no memory for another process")
            return start(number)

        return try_to

    def close(self) -> None:
        pass


def test_a_pool_without_workers_ends_whoever_asks_for_a_verdict() -> None:
    given, host = sources(), NoStart()
    task = given[0].domain.task("train", 1, 0)
    through = VerifierWorkers(host, given, SandboxConfig(), 1)
    try:
        host.is_full = True
        os.kill(through._pool.each(pid)[0], signal.SIGKILL)
        verification = Verification(NoBox(), num_at_once=1, verify=through.verify)
        with pytest.raises(PoolBroken, match=r"no worker can be started any more: no memory for another .* --resume"):
            asyncio.run(verification.verdict(given[0].domain, task, "7"))
    finally:
        through.close()
