"""Sums of two small numbers: the domain on which mechanics and algorithms are tried in seconds.

**State.** The question, for example `3+4=`.
**Action.** One reply; it should be the number and nothing else.
**Reward.** 1 if the reply, stripped of white space, is the sum in decimal digits; else 0. The part `is_number`
says whether it was a number at all, and pays nothing.

Options: `largest`, the largest summand (default 9). Equal questions occur in training and evaluation unless
`largest` is big: it measures learning, not generalisation.
"""

import random
import re
from dataclasses import dataclass

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.sandbox import Box

_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Sums up to `largest + largest`."""

    largest: int
    name: str = "arithmetic"
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """Without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """One question."""
        rng = random.Random(derive(seed, split, index))
        left, right = rng.randint(0, self.largest), rng.randint(0, self.largest)
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=f"{left}+{right}="),),
            truth={"sum": left + right},
            gold=str(left + right),
            limits=Limits(max_new_tokens=8),
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Compare with the sum."""
        is_number = _NUMBER.fullmatch(reply.strip()) is not None
        is_right = is_number and int(reply) == task.truth["sum"]
        evidence = f"expected {task.truth['sum']}, got {reply[:40]!r}"
        return Verdict.scored(float(is_right), {"is_number": float(is_number)}, evidence)


def load(argument: str, options: Options) -> Arithmetic:
    """Open the domain."""
    unknown = sorted(options.keys() - {"largest"})
    if argument or unknown:
        raise ConfigError(f"arithmetic takes no argument and one option, 'largest'; got {argument or unknown[0]!r}")
    largest = options.get("largest", 9)
    if type(largest) is not int or largest < 1:
        raise ConfigError(f"arithmetic: 'largest' must be a whole number of at least 1; got {largest!r}")
    return Arithmetic(largest=largest)
