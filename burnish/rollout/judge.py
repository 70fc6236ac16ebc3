"""Verdicts with a boundary: a bad reply is data, a failing verifier is counted, nothing becomes a silent 0."""

from typing import Protocol

from burnish.core.types import Task, Verdict
from burnish.domains import Domain
from burnish.rollout.verification import Verification
from burnish.sandbox import Box


class Judge(Protocol):
    """Gives a verdict on a reply."""

    async def __call__(self, domain: Domain, task: Task, reply: str) -> Verdict:
        """Judge a reply to a task of a domain."""
        ...


def judge_by(verification: Verification) -> Judge:
    """Judge by a verification that is open already, with its queue and its cache."""

    async def judge(domain: Domain, task: Task, reply: str) -> Verdict:
        return await verification.verdict(domain, task, reply)

    return judge


def judge_in(box: Box, *, num_at_once: int, num_attempts: int = 3) -> Judge:
    """Verify in `box`, `num_at_once` replies at a time, without a cache; time in the queue does not count.

    A timeout or an infrastructure error is tried again, up to `num_attempts` in all.
    """
    return judge_by(Verification(box, num_at_once=num_at_once, num_attempts=num_attempts))
