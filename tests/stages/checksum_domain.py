"""A domain whose reward a random model already earns half of the time, so that every step teaches something.

**State**: a sum. **Action**: any reply. **Reward**: one bit of the reply's checksum.
"""

import zlib
from dataclasses import dataclass

from burnish.core.types import Task, Verdict
from burnish.domains import Options, arithmetic
from burnish.sandbox import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum(arithmetic.Arithmetic):
    """Sums that nobody need solve."""

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """See `Domain`."""
        return Verdict.scored(zlib.crc32(reply.encode()) % 2)


def load(argument: str, options: Options) -> Checksum:
    """Open the domain."""
    return Checksum(largest=arithmetic.load(argument, options).largest)
