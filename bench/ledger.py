"""What the ledger costs a trajectory: all that each of the two loops writes of it, in the transactions it writes it in.

`python -m bench.ledger [NUM_GROUPS]` (default 250, of 8 members, replies of 200 tokens after prompts of 100).
Synchronous: prompts are issued a wave at a time, a reply is kept once it is judged. Asynchronous: a reply is kept when
it is sampled and again when it is judged, each with its events.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from burnish.core.ledger import PENDING, Ledger
from burnish.core.types import Trajectory, Verdict
from burnish.rollout.stream_log import Began, Judged, Key, sampled, to_json

GROUP_SIZE = 8


def main(num_groups: int) -> None:
    """Measure both."""
    print(f"load average {os.getloadavg()[0]:.1f}")
    for name, book in (("synchronous", _book_synchronous), ("asynchronous", _book_asynchronous)):
        print(f"{name:<14} {_cost(book, num_groups)}")
    print(f"load average {os.getloadavg()[0]:.1f}")


def _cost(book: Callable[[Ledger, int], None], num_groups: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        wall_s, processor_s = time.monotonic(), time.process_time()
        for number in range(num_groups):
            book(ledger, number)
        wall_s, processor_s = time.monotonic() - wall_s, time.process_time() - processor_s
        ledger.close()
    each = 1e6 / (num_groups * GROUP_SIZE)
    return f"{wall_s * each:6.0f} us a trajectory, {processor_s * each:6.0f} of processor"


def _book_synchronous(ledger: Ledger, number: int) -> None:
    group_id = f"0/{number:07d}"
    ledger.issue(0, number, group_id, f"code/train/1/{number}", "p" * 64)
    for member in range(GROUP_SIZE):
        ledger.record(replace(_trajectory(group_id, member), verdict=Verdict.scored(1.0)))
    ledger.mark_ready([group_id])


def _book_asynchronous(ledger: Ledger, number: int) -> None:
    keys = [Key(number, member, 0) for member in range(GROUP_SIZE)]
    group_id = f"0/{number:07d}"
    with ledger.together():
        ledger.issue(0, PENDING, group_id, f"code/train/1/{number}", "p" * 64)
        ledger.append_events(0, number, to_json(map(Began, keys)))
    for key in keys:
        trajectory = _trajectory(group_id, key.member)
        with ledger.together():
            ledger.replace(trajectory)
            ledger.append_events(0, number, to_json([sampled(key, trajectory)]))
        with ledger.together():
            ledger.replace(replace(trajectory, verdict=Verdict.scored(1.0)))
            ledger.append_events(0, number, to_json([Judged(key)]))
    ledger.consume(number, ready=[group_id])


def _trajectory(group_id: str, member: int) -> Trajectory:
    return Trajectory(
        group_id=group_id, member=member, task_id="t", prompt_hash="p", seed=1, token_ids=tuple(range(300)),
        was_sampled=(False,) * 100 + (True,) * 200, logprobs=(0.0,) * 100 + (-1.2345678901234567,) * 200,
        reply="x" * 800, stop_reason="eos", oldest_version=3, newest_version=4,
    )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 250)
