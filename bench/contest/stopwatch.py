"""What a side of a contest does around its work: read its shape, take times, print one line of figures.

No package but Python's own, so that it runs in a peer's interpreter.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Stopwatch:
    """Seconds by name, by the clock on the wall and by the processor's (of all threads)."""

    def __init__(self) -> None:
        self.wall_s: dict[str, float] = {}
        self.cpu_s: dict[str, float] = {}
        self._began = (0.0, 0.0)

    def start(self) -> None:
        """Begin to count."""
        self._began = (time.perf_counter(), time.process_time())

    def stop(self, name: str) -> None:
        """Keep what passed since `start`."""
        wall, cpu = self._began
        self.wall_s[name], self.cpu_s[name] = time.perf_counter() - wall, time.process_time() - cpu

    def time(self, name: str, run: Callable[[], T]) -> T:
        """Run once and keep what it took."""
        self.start()
        result = run()
        self.stop(name)
        return result

    def report(self, versions: Mapping[str, str], **numbers: float) -> None:
        """Print the line that the contest reads; `peak_mb` is of the whole process, the model included."""
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = {
            "wall_s": self.wall_s, "cpu_s": self.cpu_s, "numbers": {"peak_mb": peak_mb, **numbers},
            "versions": dict(versions),
        }  # fmt: skip
        print("\n" + json.dumps(found), flush=True)


def shape_of_work() -> dict[str, Any]:
    """The shape that the contest hands to each side."""
    return json.loads(sys.argv[1])
