"""Episodes whose worth and length a checksum of what was said decides, so that a random model's episodes differ.

**State**: what was said. **Action**: anything. **Reward**: 0 or 1. Rooms answer when they like: `slow_s` is drawn anew.
"""

import asyncio
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from burnish.core.errors import SandboxError
from burnish.core.types import Limits, Message, Split, Task, ToolCall, Verdict
from burnish.domains import Action, Judgement, Observation, Options, Tool, task_id
from burnish.sandbox import Backend, Box

OPEN: set[int] = set()
"""The rooms that were entered and not left."""


@dataclass(slots=True, kw_only=True, eq=False)
class Room:
    """One conversation."""

    breaks: bool
    said: list[str] = field(default_factory=list[str])

    async def reset(self, task: Task, seed: int) -> Sequence[Message]:
        """See `Environment`."""
        OPEN.add(id(self))
        return task.messages

    async def step(self, action: Action) -> Observation:
        """See `Environment`: one to three turns."""
        await asyncio.sleep(random.random() / 200)
        self.said.append(action.text)
        number = self._number()
        if self.breaks and number % 7 == 0:
            raise SandboxError("sandbox: the floor gave way")
        return Observation(text=f"so {number % 10}", done=len(self.said) == 3 or number % 3 == 0)

    async def restore(self) -> None:
        """See `Environment`."""

    async def verdict(self) -> Judgement:
        """See `Environment`."""
        return Judgement(Verdict.scored(self._number() // 3 % 2), {len(self.said) - 1: 0.25})

    async def stop(self) -> None:
        """See `Environment`."""
        OPEN.discard(id(self))

    def _number(self) -> int:
        return zlib.crc32("\n".join(self.said).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """See the module's docstring; in `:breaking` ones some floors give way."""

    name: str
    breaks: bool
    executes_code: bool = False
    tools: Sequence[Tool] = ()

    def size(self, split: Split) -> int | None:
        """Without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """See `Domain`."""
        messages = (Message(role="user", content=f"{split} {index}"),)
        limits = Limits(max_new_tokens=16, max_steps=3)
        return Task(id=task_id(self.name, split, seed, index), domain=self.name, messages=messages, truth={},
                    limits=limits)  # fmt: skip

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """See `Domain`."""
        return Verdict.scored(0.0)

    def environment(self, backend: Backend) -> Room:
        """See `HasEnvironment`."""
        return Room(breaks=self.breaks)

    def oracle(self, task: Task) -> Sequence[ToolCall] | None:
        """See `HasEnvironment`: nobody knows."""
        return None


def load(argument: str, options: Options) -> Rooms:
    """Open the domain."""
    return Rooms(name="tests.stages.hashed_rooms" + (f":{argument}" if argument else ""), breaks=argument == "breaking")
