"""Measure the sandbox on this machine: `python -m burnish.sandbox.measure [NUM_JOBS [PRELOAD...]]`.

One job at a time for the median and 95th percentile, then two at a time for jobs a second; the job is
`print(3 + 4)` and its output is checked.
"""

import asyncio
import statistics
import sys
import time

from burnish.sandbox import Box, Job, open_box

JOB = "print(3 + 4)"


async def measure(num_jobs: int, preload: tuple[str, ...]) -> str:
    """Run the measurement and put it in a line."""
    job = Job(source=JOB, preload=preload)
    async with open_box(num_workers=2) as box:
        await _timed(box, job)
        alone_ms = [1e3 * await _timed(box, job) for _ in range(num_jobs)]
        started = time.perf_counter()
        await asyncio.gather(*[_timed(box, job) for _ in range(num_jobs)])
        jobs_a_s = num_jobs / (time.perf_counter() - started)
    p95_ms = statistics.quantiles(alone_ms, n=20)[-1]
    return (
        f"preload {', '.join(preload) or 'nothing'}: p50 {statistics.median(alone_ms):.1f} ms, p95 {p95_ms:.1f} ms, "
        f"least {min(alone_ms):.1f} ms; two at a time {jobs_a_s:.0f} jobs/s"
    )


async def _timed(box: Box, job: Job) -> float:
    started = time.perf_counter()
    outcome = await box.run(job)
    assert outcome.stdout == b"7\n", outcome
    return time.perf_counter() - started


if __name__ == "__main__":
    line = asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 200, tuple(sys.argv[2:])))
    sys.stdout.write(line + "\n")
