"""Many jobs of one verdict, a few at a time; the first failure of the sandbox ends them all."""

import asyncio
from collections.abc import Sequence

from burnish.sandbox import Box, Job, Outcome


async def run_all(box: Box, jobs: Sequence[Job], num_at_once: int) -> list[Outcome]:
    """Run all jobs and give their outcomes in order; on an error the others are killed, and it propagates."""
    turn = asyncio.Semaphore(num_at_once)

    async def run(job: Job) -> Outcome:
        async with turn:
            return await box.run(job)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(job)) for job in jobs]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
