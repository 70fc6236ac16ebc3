"""Terminal agents: many steps in a real shell, judged by what they leave.

`domain = "terminal"` draws from all families of generated tasks, `terminal:FAMILY` from one, `terminal:PATH` from a
store that `burnish tasks build` or `burnish tasks import` wrote.

**State**: a folder with files, a shell in it that keeps its folder and environment, and what was done so far.

**Action**: one call of a tool a turn: `shell`, `view`, `create`, `replace`, `insert`, `undo`, `page` or `submit`, in
the model's own way of calling tools, or as a fenced block.

**Reward**: the outcome, found in a fresh place from the changes alone: tests that failed pass and the others still do,
or files are as they should be, or a script agrees. In training, good habits add to it (`rewards/process.py`), nearly
all of them only with the outcome; on held-out tasks the score is the outcome alone.

Options: `levels` (of the ladder 0 to 5), `families` (names), `held_out` (for evaluation: `with` the families that are
never trained on, `without` them, `only` them), `process` (false: training is paid the outcome alone too), `tools`
(names; all where nothing is said, and fewer for a policy that takes in little), `turn_tokens`, `command_s`,
`observation_chars`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final, Literal

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Json, Limits, Message, Split, Task, ToolCall, Verdict
from burnish.domains import Environment, Options, Tool, task_id
from burnish.domains.terminal import families
from burnish.domains.terminal.environment import Settings, TerminalEnvironment
from burnish.domains.terminal.grounds import Grounds
from burnish.domains.terminal.spec import TerminalTask, task_of
from burnish.domains.terminal.store import Store, open_store
from burnish.domains.terminal.tools import TOOLS, chosen
from burnish.domains.terminal.verdict import most_s
from burnish.sandbox import Backend, Box

SYSTEM: Final = "You work in a Linux terminal, in /work. Do what you are asked, then submit."


class TerminalOptions(Strict):
    """See the module's docstring."""

    levels: list[int] = Field(default=list(families.LADDER), min_length=1)
    families: list[str] = []
    held_out: Literal["with", "without", "only"] = "with"
    process: bool = True
    tools: list[str] = []
    turn_tokens: int = Field(default=192, ge=16)
    command_s: float = Field(default=30.0, gt=0)
    observation_chars: int = Field(default=2000, ge=200)


@dataclass(slots=True, kw_only=True, eq=False)
class Terminal:
    """The domain; tasks come from a store or from families."""

    name: str
    options: TerminalOptions
    store: Store | None = None
    executes_code: bool = True
    tools: Sequence[Tool] = TOOLS
    _grounds: dict[int, Grounds] = field(default_factory=dict[int, Grounds])

    def size(self, split: Split) -> int | None:
        """How many tasks a store has; families have no end."""
        return None if self.store is None else self.store.size(split)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """See `Domain`."""
        made = self._from_store(split, seed, index) if self.store else self._from_families(split, seed, index)
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="system", content=SYSTEM), Message(role="user", content=made.instruction)),
            truth={"split": split, "task": made.to_json()},
            limits=Limits(
                max_new_tokens=self.options.turn_tokens, max_steps=made.max_steps, verify_wall_s=most_s(made.check)
            ),
            tags=(f"family:{made.family}", f"level:{made.level}", *_held_out(made), *made.tags),
            source=made.source or made.family,
        )  # fmt: skip

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """See `Domain`: a reply alone does nothing here."""
        return Verdict.scored(0.0, evidence="a reply alone changes nothing; the task is worked on in an episode")

    def cache_identity(self) -> str | None:
        """See `SaysIdentity`: a verdict is on what an episode left, which no other leaves."""
        return None

    def environment(self, backend: Backend) -> Environment:
        """See `HasEnvironment`."""
        if id(backend) not in self._grounds:
            self._grounds[id(backend)] = Grounds(backend=backend, base_folder=self._base_folder)
        grounds = self._grounds[id(backend)]
        settings = Settings(
            command_s=self.options.command_s, observation_chars=self.options.observation_chars,
            pays_process=self.options.process,
        )  # fmt: skip
        return TerminalEnvironment(grounds, settings)

    def oracle(self, task: Task) -> Sequence[ToolCall] | None:
        """See `HasEnvironment`."""
        calls = [_call(call) for call in task_of(task).oracle]
        return calls or None

    def _from_store(self, split: Split, seed: int, index: int) -> TerminalTask:
        assert self.store is not None
        size = self.store.size(split)
        if not 0 <= index < size:
            raise ConfigError(f"{self.name}: no task {index} in {split}; it has {size}")
        return self.store.task(split, _order(size, derive(seed, self.name, split))[index])

    def _from_families(self, split: Split, seed: int, index: int) -> TerminalTask:
        choice = (self.options.held_out, *self.options.families, *map(str, self.options.levels))
        rng = Random(derive(seed, self.name, split, index, *choice))  # entries that differ in these draw other tasks
        family, level = rng.choice(self.rungs(split))
        return families.draw(families.family(family), rng, level, split)

    def rungs(self, split: Split) -> list[tuple[str, int]]:
        """The families and levels that a split draws from, each as often as any other."""
        wanted = set(self.options.families or families.names())
        kinds = (
            [False]
            if split == "train"
            else {"with": [False, True], "without": [False], "only": [True]}[self.options.held_out]
        )
        return [
            (one.name, level)
            for is_held_out in kinds
            for one in families.families(self.options.levels, is_held_out=is_held_out)
            for level in one.levels
            if one.name in wanted and level in self.options.levels
        ]

    def _base_folder(self, base: str) -> Path:
        if self.store is None:
            raise ConfigError(f"{self.name}: a task with a base, and no store that has it")
        return self.store.base_folder(base)


def load(argument: str, options: Options) -> Terminal:
    """Open the domain; see the module's docstring."""
    name = "terminal" + (f":{argument}" if argument else "")
    config = validate(TerminalOptions, dict(options), f"options of domain {name!r}")
    tools = chosen(config.tools, f"options of domain {name!r}")
    is_path = "/" in argument or Path(argument).is_dir() if argument else False
    if argument and not is_path:
        if config.families:
            raise ConfigError(f"domain {name!r}: families are named twice; leave the option out, or take 'terminal'")
        config = config.model_copy(update={"families": [argument]})
    if is_path:
        if given := sorted(options.keys() & {"levels", "families", "held_out"}):
            raise ConfigError(f"domain {name!r}: {', '.join(given)} choose among generated tasks; a store has its own")
        return Terminal(name=name, options=config, tools=tools, store=open_store(Path(argument)))
    domain = Terminal(name=name, options=config, tools=tools)
    for family in config.families:
        families.family(family)
    if not domain.rungs("eval"):
        raise ConfigError(f"domain {name!r}: no family has a task of levels {config.levels}; see `burnish tasks show`")
    return domain


def _held_out(task: TerminalTask) -> tuple[str, ...]:
    return ("held_out",) if task.family in families.HELD_OUT else ()


@lru_cache(maxsize=8)
def _order(size: int, seed: int) -> tuple[int, ...]:
    return tuple(Random(seed).sample(range(size), size))


def _call(call: Mapping[str, Json]) -> ToolCall:
    arguments = call.get("arguments", {})
    assert isinstance(arguments, dict)
    return ToolCall(name=str(call["name"]), arguments=arguments)
