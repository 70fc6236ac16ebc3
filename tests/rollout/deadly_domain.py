"""A domain whose verifier takes its process down.

**State** none. **Action** none. **Reward** none.
"""

import os
import signal
from collections.abc import Mapping

from burnish.core.types import Json, Split, Task, Verdict
from burnish.sandbox import Box


class Deadly:
    """See the module's docstring."""

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
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def load(argument: str, options: Mapping[str, Json]) -> Deadly:
    """The domain."""
    return Deadly()
