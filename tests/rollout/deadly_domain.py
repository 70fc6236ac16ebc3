"""A domain whose verifier takes its process down, or (`deadly_domain:holds`) never lets go of it.

**State** none. **Action** none. **Reward** none.
"""

import os
import signal
import time
from collections.abc import Mapping

from burnish.core.types import Json, Split, Task, Verdict
from burnish.sandbox import Box


class Deadly:
    """See the module's docstring."""

    def __init__(self, argument: str) -> None:
        self.holds = argument == "holds"

    name = "tests.rollout.deadly_domain"
    executes_code = False

    def size(self, split: Split) -> int | None:
        """See `Domain`."""
        return 1

    def task(self, split: Split, seed: int, index: int) -> Task:
        """See `Domain`; tests bring their own."""
        raise NotImplementedError

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """See `Domain`."""
        if self.holds:
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def load(argument: str, options: Mapping[str, Json]) -> Deadly:
    """The domain."""
    return Deadly(argument)
