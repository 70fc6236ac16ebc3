"""Checked snippets a second against a bare `python3 -I -S`, same cores, one run.

`python bench/sandbox.py [NUM [PRELOAD ...]]`: with nothing preloaded, then with each of PRELOAD (numpy and sympy).

Rounds of the two are interleaved, so that what else the machine does meets both. The bare process gives way
to other work as jobs of the sandbox do (same niceness, a session of its own). "Alone" is one after another, "pairs"
two at a time. The bare process isolates nothing; with a preload it imports what the sandbox has imported.

Both give their output through pipes to a thread of the same pool size, and of both the best round counts. Run it on a
machine that does nothing else: where the kernel shares the processor between sessions, each slot of the sandbox has a
share of its own, so that other work would cost the bare process more. Other work changes the processor time of a job
less: that of this process, and of the slots or the children. What the kernel's own threads do for namespaces is in
neither.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from burnish.sandbox import Box, Job, ResourceLimits, open_box
from burnish.sandbox.inside import serve

NUM_ROUNDS = 5
LIMITS = ResourceLimits(wall_s=60.0)
Runner = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Times:
    """What one way of running gave."""

    alone_ms: list[float] = field(default_factory=list[float])
    pairs_a_s: list[float] = field(default_factory=list[float])
    cpu_s: float = 0.0
    num_jobs: int = 0


async def measure(runner: Runner, num_jobs: int, times: Times) -> None:
    """Run one round."""
    before_s = processor_s()
    for _ in range(num_jobs):
        started = time.perf_counter()
        await runner()
        times.alone_ms.append(1e3 * (time.perf_counter() - started))
    started = time.perf_counter()
    for _ in range(num_jobs // 2):
        await asyncio.gather(runner(), runner())
    times.pairs_a_s.append(num_jobs // 2 * 2 / (time.perf_counter() - started))
    times.cpu_s += processor_s() - before_s
    times.num_jobs += num_jobs + num_jobs // 2 * 2


def processor_s() -> float:
    """Processor time of this process and the children that it has reaped."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def sandboxed(box: Box, preload: tuple[str, ...], times: Times) -> Runner:
    """Run the snippet in the box."""

    async def run() -> None:
        outcome = await box.run(Job(source="print(3 + 4)", preload=preload, limits=LIMITS))
        assert outcome.stdout == b"7\n", outcome
        times.cpu_s += outcome.cpu_s or 0.0

    return run


def bare(threads: ThreadPoolExecutor, preload: tuple[str, ...]) -> Runner:
    """Run the snippet in a child process with nothing around it."""
    folders = [folder for folder in sys.path if folder.endswith("site-packages")]
    imports = "".join(f"import {name}\n" for name in preload)
    source = (f"import sys; sys.path += {folders!r}\n{imports}" if preload else "") + "print(3 + 4)"
    command = [sys.executable, "-I", "-S", "-c", source]

    def run_one() -> None:
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"7\n"

    async def run() -> None:
        await asyncio.get_running_loop().run_in_executor(threads, run_one)

    return run


async def compare(num_jobs: int, preload: tuple[str, ...]) -> str:
    """Compare both ways for one preload, in a few lines."""
    ours, theirs = Times(), Times()
    with ThreadPoolExecutor(2) as threads:
        async with open_box(num_workers=2) as box:
            runners = ((sandboxed(box, preload, ours), ours), (bare(threads, preload), theirs))
            for runner, times in runners:
                await asyncio.gather(runner(), runner())
                times.cpu_s = 0.0
            for _ in range(NUM_ROUNDS):
                for runner, times in runners:
                    await measure(runner, num_jobs, times)
    name = ", ".join(preload) or "nothing"
    ratio = max(ours.pairs_a_s) / max(theirs.pairs_a_s)
    processor = theirs.cpu_s / theirs.num_jobs / (ours.cpu_s / ours.num_jobs)
    latency = statistics.median(theirs.alone_ms) / statistics.median(ours.alone_ms)
    return "\n".join(
        [
            describe(f"preload {name}: sandbox", ours),
            describe(f"preload {name}: bare", theirs),
            f"preload {name}: ratio {ratio:.2f} in jobs/s, {latency:.2f} in p50, {processor:.2f} in processor time",
        ]
    )


def describe(name: str, times: Times) -> str:
    """Put one way's figures in a line."""
    p50_ms, p95_ms = statistics.median(times.alone_ms), statistics.quantiles(times.alone_ms, n=20)[-1]
    return (
        f"{name}: p50 {p50_ms:.1f} ms, p95 {p95_ms:.1f} ms, least {min(times.alone_ms):.1f} ms; "
        f"two at a time {max(times.pairs_a_s):.0f} jobs/s at best, median {statistics.median(times.pairs_a_s):.0f}; "
        f"processor time {1e3 * times.cpu_s / times.num_jobs:.1f} ms a job"
    )


def main(num_jobs: int, preloads: tuple[str, ...]) -> None:
    """Compare for nothing and for each preload, as a session with the priority of a slot."""
    os.setsid()
    serve.give_way()
    for name in ("", *preloads):
        print(asyncio.run(compare(num_jobs, (name,) if name else ())), flush=True)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


if __name__ == "__main__":
    child = os.fork()  # since the leader of a group can open no session
    if child == 0:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, tuple(sys.argv[2:]) or ("numpy", "sympy"))
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
