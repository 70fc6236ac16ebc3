"""Verdicts with a boundary: a bad reply is data, a failing verifier is counted, nothing becomes a silent 0."""

import asyncio
from typing import Protocol

from burnish.core.errors import SandboxError
from burnish.core.types import Task, Verdict
from burnish.domains import Domain
from burnish.sandbox import Box


class Judge(Protocol):
    """Gives a verdict on a reply."""

    async def __call__(self, domain: Domain, task: Task, reply: str) -> Verdict:
        """Judge a reply to a task of a domain."""
        ...


def judge_in(box: Box, *, num_at_once: int, num_attempts: int = 3) -> Judge:
    """Verify in `box`, `num_at_once` replies at a time; time in the queue does not count.

    A timeout or an infrastructure error is tried again, up to `num_attempts` in all.
    """
    turn = asyncio.Semaphore(num_at_once)

    async def judge(domain: Domain, task: Task, reply: str) -> Verdict:
        num_left = num_attempts
        while True:
            num_left -= 1
            async with turn:
                verdict = await _verdict(domain, task, reply, box)
            if num_left <= 0 or verdict.kind in ("scored", "unscorable"):
                return verdict

    return judge


async def _verdict(domain: Domain, task: Task, reply: str, box: Box) -> Verdict:
    try:
        async with asyncio.timeout(task.limits.verify_wall_s):
            return await domain.verify(task, reply, box)
    except TimeoutError:
        return Verdict.timed_out(f"no verdict within {task.limits.verify_wall_s} s")
    except SandboxError as error:
        return Verdict.infrastructure_error(str(error))
    except Exception as error:  # noqa: BLE001  the one boundary: a domain's own fault must neither stop a run nor score
        return Verdict.unscorable(f"the verifier of {domain.name} raised {type(error).__name__}: {error}")
