"""Snapshot, restore, fork and diff of a place over a repository of 5,000 files, against `cp -a` of it.

`python bench/snapshots.py [NUM_ROUNDS]` prints medians (and the least) in ms; each round changes ten files.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from burnish.sandbox import ResourceLimits
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec

NUM_FILES = 5000
FILES_A_FOLDER = 50
NUM_COPIES = 3
CHANGE = "for i in 0 1 2 3 4 5 6 7 8 9; do echo {number} >> d$i/f$i; done"


def make_repository(folder: Path) -> None:
    """Write the files, fifty a folder."""
    for number in range(NUM_FILES):
        path = folder / f"d{number // FILES_A_FOLDER}" / f"f{number % FILES_A_FOLDER}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number}\n" * 50)


async def timed_ms(times: list[float], work: Coroutine[Any, Any, Any]) -> Any:
    """Await, and note how long it took."""
    started = time.perf_counter()
    result = await work
    times.append(1e3 * (time.perf_counter() - started))
    return result


async def measure(folder: Path, num_rounds: int) -> dict[str, list[float]]:
    """Time each operation once a round."""
    times: dict[str, list[float]] = {name: [] for name in ("snapshot", "diff", "fork", "restore")}
    places = LocalPlaces()
    try:
        limits = ResourceLimits(disk_mb=64, num_files=20_000)
        place = await places.start(PlaceSpec(layers=(folder,), limits=limits))
        last = await place.snapshot()
        for number in range(num_rounds):
            outcome = await place.run(Command(argv=("sh", "-c", CHANGE.format(number=number))))
            assert outcome.exit_code == 0, outcome
            new = await timed_ms(times["snapshot"], place.snapshot())
            assert len(await timed_ms(times["diff"], place.diff(last, new))) == 10
            fork = await timed_ms(times["fork"], place.fork(new))
            await fork.stop()
            await timed_ms(times["restore"], place.restore(last if number % 2 else new))
            last = new if number % 2 == 0 else last
    finally:
        await places.stop()
    return times


def copy_ms(folder: Path, num_rounds: int) -> list[float]:
    """Time whole copies."""
    found: list[float] = []
    for number in range(num_rounds):
        started = time.perf_counter()
        subprocess.run(["cp", "-a", folder, folder.with_name(f"copy{number}")], check=True)
        found.append(1e3 * (time.perf_counter() - started))
    return found


def main() -> None:
    """Measure and print."""
    num_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "repository"
        make_repository(folder)
        times = asyncio.run(measure(folder, num_rounds))
        copies = copy_ms(folder, NUM_COPIES)
        copy_p50 = statistics.median(copies)
        print(f"cp -a of {NUM_FILES} files: {copy_p50:.1f} ms, least {min(copies):.1f} ms")
        for name, found in times.items():
            p50 = statistics.median(found)
            print(
                f"{name}: {p50:.1f} ms, least {min(found):.1f} ms ({copy_p50 / p50:.0f}x faster than cp -a)", flush=True
            )


if __name__ == "__main__":
    main()
