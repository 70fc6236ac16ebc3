"""Jobs leave nothing: 200 in the usual tests, 10,000 in the slow ones."""

import asyncio
import gc
import os
from pathlib import Path

import pytest

from burnish.sandbox import Job, ResourceLimits, cgroups, missing, open_box

ROOMY = ResourceLimits(wall_s=60.0)
MOST_PROCESSES = 2 + 3 * 4  # the server's two; each slot with its cell, its program, and a cell that is going
ENDINGS = (
    "print(1)",
    "raise SystemExit(3)",
    "import os; os.kill(os.getpid(), 9)",
    "open('/tmp/f', 'w').write('x' * 1000); import os; os.fork()",
)


def parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found


def children() -> set[int]:
    """What this process started; all that a box runs hangs below one of them, in a PID namespace that ends with it."""
    return {pid for pid, parent in parents().items() if parent == os.getpid()}


def num_below(roots: set[int]) -> int:
    found, all_parents = set(roots), parents()
    while more := {pid for pid, parent in all_parents.items() if parent in found} - found:
        found |= more
    return len(found)


def groups() -> set[Path]:
    return {folder for tree in cgroups.trees() for folder in tree.folder.glob(f"burnish-{os.getpid()}-*")}


def own_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10


def host_state() -> tuple[str, set[str], set[int], set[Path]]:
    gc.collect()  # what other tests left to the collector closes now, not while this one runs
    return Path("/proc/self/mountinfo").read_text(), set(os.listdir("/proc/self/fd")), children(), groups()


async def run_many(num_jobs: int) -> tuple[int, int]:
    """Run jobs two at a time; the growth of memory in KB and of descriptors once the first tenth is through."""
    others = children()
    async with open_box(num_workers=2) as box:
        for first in range(0, num_jobs, 20):
            if first == num_jobs // 10:
                kb, num_fds, num_groups = own_kb(), len(os.listdir("/proc/self/fd")), len(groups())
            jobs = [Job(source=ENDINGS[i % len(ENDINGS)], limits=ROOMY) for i in range(20)]
            await asyncio.gather(*map(box.run, jobs))
        assert len(groups()) == num_groups
        assert num_below(children() - others) <= MOST_PROCESSES
        return own_kb() - kb, len(os.listdir("/proc/self/fd")) - num_fds


def check(num_jobs: int, most_kb: int) -> None:
    before = host_state()
    grown_kb, more_fds = asyncio.run(run_many(num_jobs))
    assert grown_kb < most_kb and more_fds == 0
    assert host_state() == before


@pytest.fixture(autouse=True)
def _isolating_host():
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")


def test_200_jobs_leave_nothing():
    check(200, most_kb=8 << 10)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_10_000_jobs_leave_nothing():
    check(10_000, most_kb=16 << 10)
