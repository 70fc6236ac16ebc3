"""Runs one recipe to its end while processes of it are killed at random moments: its driver and whatever that started.

No kind is hit again before the run has issued some more prompts, so that whatever was hit gets somewhere, nor, but for
the driver, before a life of the run has issued its first. The death of a learner rank ends the run with an error, which
is resumed like a death of its own. So does a worker that is hit each time before it is open; that may happen seldom.
"""

import math
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.chaos.nursery import Nursery, Order
from tests.runtime.test_processes import comes_true, is_gone

NUM_PROMPTS_BETWEEN = 2
ENDS_WITHIN_S = 30.0
MOST_ERRORS = 2
LONGEST_WAIT_S = 0.4


class Hit(NamedTuple):
    """A process that was killed, and what it was."""

    kind: str
    pid: int


def rampage(breed: Nursery, order: Order, run: Path, wanted: Counter[str], numbers: random.Random) -> list[Hit]:
    """Kill up to so many of each kind, and start the run again until it ends by itself; returns what was killed."""
    hits: list[Hit] = []
    num_errors = 0
    while True:
        num_before = len(hits)
        code = _life(breed, order, run, wanted, numbers, hits)
        assert comes_true(lambda: not breed.living(), ENDS_WITHIN_S), "a run that has ended left processes"
        if code == 0:
            return hits
        is_told = any(hit.kind == "rank" for hit in hits[num_before:])
        num_errors += code != -signal.SIGKILL and not is_told
        assert len(hits) > num_before and num_errors <= MOST_ERRORS, Path(order.log).read_text()[-4000:]


def _life(
    breed: Nursery, order: Order, run: Path, wanted: Counter[str], numbers: random.Random, hits: list[Hit]
) -> int:
    driver = breed.start(order)
    since = dict.fromkeys(wanted, float(_num_prompts(run)))
    if numbers.random() < 0.5:
        since["driver"] = -math.inf
    while not is_gone(driver):
        time.sleep(numbers.uniform(0.0, LONGEST_WAIT_S))
        num, killed = _num_prompts(run), Counter(hit.kind for hit in hits)
        kinds = [kind for kind in sorted(wanted - killed) if num - since[kind] >= NUM_PROMPTS_BETWEEN]
        prey = [hit for hit in _seen(breed, driver) if hit.kind in kinds]
        if prey:
            hit = numbers.choice(prey)
            with suppress(ProcessLookupError):
                os.kill(hit.pid, signal.SIGKILL)
                hits.append(hit)
                since[hit.kind] = num
    return breed.wait()


def _seen(breed: Nursery, driver: int) -> list[Hit]:
    return [Hit("driver" if pid == driver else kind_of(pid), pid) for pid in breed.living()]


def kind_of(pid: int) -> str:
    """The crew of a worker, `zygote` for the first process of a sandbox's fork server, else nothing."""
    words = _command(pid)
    if any("process_main" in word for word in words):
        return words[-1].rpartition("-")[0]
    is_server = any("sandbox.inside.launch" in word for word in words)
    return "zygote" if is_server and _command(_parent(pid)) != words else ""


def _command(pid: int) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    return []


def _parent(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _num_prompts(run: Path) -> int:
    """How many prompts the run has issued; it never falls."""
    ledger = run / "ledger.sqlite"
    if not ledger.exists():
        return 0
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db, suppress(sqlite3.Error):
        return int(db.execute("SELECT COUNT(*) FROM groups").fetchone()[0])
    return 0  # its tables are still to come
