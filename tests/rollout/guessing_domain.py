"""Guess a number in several turns: an environment without a sandbox. `guessing_domain:tools` wants calls of a tool.

**State**: a number from 1 to 9. **Action**: a guess. **Reward**: 1 for the number, half for having come near.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.errors import SandboxError
from burnish.core.types import Json, Limits, Message, Split, Task, ToolCall, Verdict
from burnish.domains import Action, Judgement, Observation, Tool, task_id
from burnish.sandbox import Backend, Box

TOOL: Tool = {
    "type": "function",
    "function": {
        "name": "guess",
        "description": "Guess the number.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}


@dataclass(slots=True, kw_only=True, eq=False)
class Room:
    """One game. `slow_s` says how long the answer to a turn takes; a `trap` breaks the machinery."""

    slow_s: Callable[[int], float]
    trap: Callable[[int], bool]
    log: list[str]
    secret: int = 0
    guesses: list[int] = field(default_factory=list[int])
    has_stopped: bool = False

    async def reset(self, task: Task, seed: int) -> Sequence[Message]:
        """See `Environment`."""
        self.secret = int(str(task.truth["secret"]))
        self.log.append("reset")
        return task.messages

    async def step(self, action: Action) -> Observation:
        """See `Environment`."""
        await asyncio.sleep(self.slow_s(self.secret))
        if self.trap(len(self.guesses)):
            raise SandboxError("sandbox: the floor gave way")
        said = action.call.arguments["number"] if action.call else action.text.strip()
        if action.fault or not str(said).isdecimal():
            return Observation(text=action.fault or "A number, please.", events=({"kind": "malformed"},))
        self.guesses.append(int(str(said)))
        told = "right" if self.guesses[-1] == self.secret else "up" if self.guesses[-1] < self.secret else "down"
        return Observation(text=told, done=told == "right", events=({"kind": "guess", "number": self.guesses[-1]},))

    async def restore(self) -> None:
        """See `Environment`."""
        self.log.append("restore")
        self.guesses.append(self.secret + 1)

    async def verdict(self) -> Judgement:
        """See `Environment`."""
        distance = min((abs(guess - self.secret) for guess in self.guesses[-1:]), default=9)
        score = {0: 1.0, 1: 0.5}.get(distance, 0.0)
        return Judgement(Verdict.scored(score, {"distance": float(distance)}), {len(self.guesses) - 1: score})

    async def stop(self) -> None:
        """See `Environment`."""
        if not self.has_stopped:
            self.log.append("stop")
        self.has_stopped = True


@dataclass(slots=True, kw_only=True, eq=False)
class Guessing:
    """See the module's docstring; `log` has what its rooms did."""

    name: str = "tests.rollout.guessing_domain"
    executes_code: bool = False
    tools: Sequence[Tool] = ()
    slow_s: Callable[[int], float] = lambda secret: 0.0
    trap: Callable[[int], bool] = lambda turn: False
    max_steps: int = 4
    log: list[str] = field(default_factory=list[str])

    def size(self, split: Split) -> int | None:
        """See `Domain`."""
        return 9

    def task(self, split: Split, seed: int, index: int) -> Task:
        """See `Domain`: task number i has the number i + 1."""
        return Task(
            id=task_id(self.name, split, seed, index), domain=self.name,
            messages=(Message(role="user", content=f"Guess my number, from 1 to 9. ({split} {index})"),),
            truth={"secret": index + 1}, limits=Limits(max_new_tokens=24, max_steps=self.max_steps), source=split,
        )  # fmt: skip

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """See `Domain`."""
        return Verdict.scored(0.0, evidence="a game is judged by its room")

    def environment(self, backend: Backend) -> Room:
        """See `HasEnvironment`."""
        return Room(slow_s=self.slow_s, trap=self.trap, log=self.log)

    def oracle(self, task: Task) -> Sequence[ToolCall] | None:
        """See `HasEnvironment`: halving."""
        low, high, calls = 1, 9, list[ToolCall]()
        while not calls or calls[-1].arguments["number"] != task.truth["secret"]:
            middle = (low + high) // 2
            calls.append(ToolCall(name="guess", arguments={"number": middle}))
            low, high = (middle + 1, high) if middle < int(str(task.truth["secret"])) else (low, middle - 1)
        return calls


def load(argument: str, options: Mapping[str, Json]) -> Guessing:
    """Open the domain."""
    name = "tests.rollout.guessing_domain" + (f":{argument}" if argument else "")
    return Guessing(name=name, tools=(TOOL,) if argument == "tools" else ())
