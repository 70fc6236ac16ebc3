"""What a mixture holds in memory while tasks are drawn: a million of a source that makes them, and of a finite one.

`python -m bench.mixture [NUM]` (default 1,000,000). Each row is a process of its own: so many draws one after the
other, then a thousand of them again at random. Printed: the growth of resident memory over what the open mixture had,
and the processor time a draw. "Held at once" is what a list of such tasks takes, by the first 20,000 of them.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from burnish.core.recipe import TaskEntry
from burnish.core.types import Split, Task, Verdict
from burnish.domains import Domain, open_domain
from burnish.rollout.mixture import Mixture, Source
from burnish.sandbox import Box

NUM_LISTED = 20_000
NUM_AGAIN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finite:
    """The first so many tasks of an endless domain."""

    domain: Domain
    num: int
    name: str = "finite"
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """See `Domain`."""
        return self.num

    def task(self, split: Split, seed: int, index: int) -> Task:
        """See `Domain`."""
        return self.domain.task(split, seed, index)

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """See `Domain`."""
        return await self.domain.verify(task, reply, box)


class Cost(NamedTuple):
    """What drawing took."""

    grown_mb: float
    draw_us: float


KINDS: Mapping[str, Callable[[Domain, int], Domain]] = {
    "made without end": lambda domain, num: domain,
    "a finite source": lambda domain, num: Finite(domain=domain, num=num),
}


def main(num: int) -> None:
    """Measure each kind at a tenth of the draws and at all of them."""
    print(f"load average {os.getloadavg()[0]:.1f}; CPython {sys.version.split()[0]}")
    for kind in KINDS:
        for some in (num // 10, num):
            cost = _apart(drawn, kind, some)
            print(f"{kind:<18} {some:>9} draws: {cost.grown_mb:7.1f} MB more, {cost.draw_us:6.1f} us a draw")
    held = _apart(listed, "made without end", NUM_LISTED)
    print(f"held at once: {held.grown_mb * num / NUM_LISTED:.0f} MB for {num}, by {NUM_LISTED} of them")
    print(f"load average {os.getloadavg()[0]:.1f}")


def _apart(measure: Callable[[str, int], Cost], kind: str, num: int) -> Cost:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, kind, num).result()


def drawn(kind: str, num: int) -> Cost:
    """Draw so many, and some of them again."""
    mixture = _mixture(kind, num)
    again = random.Random(1)
    mixture.draw(0)
    before, started = _resident_mb(), time.process_time()
    for number in range(num):
        mixture.draw(number)
    for _ in range(NUM_AGAIN):
        mixture.draw(again.randrange(num))
    return Cost(_resident_mb() - before, (time.process_time() - started) / (num + NUM_AGAIN) * 1e6)


def listed(kind: str, num: int) -> Cost:
    """Keep so many in a list."""
    mixture = _mixture(kind, num)
    mixture.draw(0)
    before, started = _resident_mb(), time.process_time()
    tasks = [mixture.draw(number).task for number in range(num)]
    return Cost(_resident_mb() - before, (time.process_time() - started) / len(tasks) * 1e6)


def _mixture(kind: str, num: int) -> Mixture:
    domain = KINDS[kind](open_domain("arithmetic", {"largest": 1000}), num)
    return Mixture([Source(entry=TaskEntry(domain="arithmetic"), domain=domain)], seed=1, exclude=frozenset())


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
