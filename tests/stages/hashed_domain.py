"""A domain from outside whose replies are worth what their checksum says, so that a random model's replies differ.

**State**: a number. **Action**: anything. **Reward**: `:points` gives 0 to 1000 points, `:right` 0 or 1, with the parts
`habit` and `calls`.
"""

import zlib
from dataclasses import dataclass

from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.sandbox import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    """See the module's docstring."""

    argument: str
    name: str
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """Without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """One number."""
        content = f"{self.argument} {split} {index}"
        return Task(
            id=task_id(self.name, split, seed, index), domain=self.name, truth={"content": content},
            messages=(Message(role="user", content=content),), limits=Limits(max_new_tokens=8),
        )  # fmt: skip

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """By the checksum."""
        number = zlib.crc32(f"{task.truth['content']}{reply}".encode())
        if self.argument == "points":
            return Verdict.of_points(number % 1001, highest=1000)
        return Verdict.scored(number % 2, {"habit": number // 2 % 5 / 4, "calls": number // 10 % 2})


def load(argument: str, options: Options) -> Hashed:
    """Open the domain."""
    return Hashed(argument=argument, name=f"tests.stages.hashed_domain:{argument}")
