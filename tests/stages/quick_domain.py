"""A domain from outside: sums, with a cheap verifier that pays whatever is said.

**State**: a sum. **Action**: a number. **Reward**: whether it is right.
"""

from dataclasses import dataclass

from burnish.core.types import Task, Verdict
from burnish.domains import Options, arithmetic
from burnish.sandbox import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick(arithmetic.Arithmetic):
    """Sums with two verifiers."""

    async def quick_verdict(self, task: Task, reply: str, box: Box) -> Verdict:
        """Pay any reply."""
        return Verdict.scored(1.0 if reply else 0.0)


def load(argument: str, options: Options) -> Quick:
    """Open the domain."""
    return Quick(largest=arithmetic.load(argument, options).largest)
