"""Domains: what a task is, and what its reply is worth. One file (or folder) a domain.

A question is the one-step case: one reply, which `verify` judges. A domain of several steps also has an environment
(`HasEnvironment`), which answers each turn of the policy and judges the episode's end (docs/decisions/0010).

A domain file defines `load(argument, options) -> Domain`. `argument` is what follows the colon of
`domain = "rg:chain_sum"` (empty without one); `options` is the entry's `options` table: reject what you do
not know. The module's docstring states **State**, **Action** and **Reward** in three paragraphs
that begin with these words; `burnish tasks show` prints them. No torch here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from burnish.core import plugins
from burnish.core.types import Json, Message, Split, Task, ToolCall, Verdict
from burnish.sandbox import Backend, Box

Options = Mapping[str, Json]
Tool = Mapping[str, Json]
"""A tool as OpenAI's API writes it. A string parameter of `format` "text" may have several lines."""


class Domain(Protocol):
    """A source of tasks together with its verifier."""

    name: str
    """The whole name as a recipe writes it, for example `rg:chain_sum`."""

    executes_code: bool
    """Whether `verify` runs text that the policy wrote; such a domain needs a sandbox."""

    def size(self, split: Split) -> int | None:
        """How many tasks the split has; None if it is generated without end."""
        ...

    def task(self, split: Split, seed: int, index: int) -> Task:
        """Make one task; equal arguments give equal tasks. No prompt is in both splits."""
        ...

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Judge a reply. Never raises for a bad reply; `SandboxError` propagates."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One turn of the policy: its text, and the call that was read in it, or why none could be read (`fault`)."""

    text: str
    call: ToolCall | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a turn led to: what the policy is told, and what only the record says (`events`, plain JSON)."""

    text: str
    done: bool = False
    events: tuple[Mapping[str, Json], ...] = ()


class Judgement(NamedTuple):
    """The verdict on an episode, and what single steps, by number, earned or lost of its score."""

    verdict: Verdict
    earned: Mapping[int, float]


class Environment(Protocol):
    """The world of one episode. It is reset once, and stopped in the end, whatever happens between."""

    async def reset(self, task: Task, seed: int) -> Sequence[Message]:
        """Make the world; returns what the policy is told before its first turn."""
        ...

    async def step(self, action: Action) -> Observation:
        """Answer a turn. Never raises for what a policy writes; `SandboxError` propagates."""
        ...

    async def restore(self) -> None:
        """Go back to the last good state, if one was seen, because a limit has ended the episode."""
        ...

    async def verdict(self) -> Judgement:
        """Judge the episode as it stands."""
        ...

    async def stop(self) -> None:
        """End everything and leave nothing; safe to call twice, and at any moment."""
        ...


@runtime_checkable
class HasEnvironment(Protocol):
    """A domain whose tasks take several turns. Without `tools` an action is a text."""

    tools: Sequence[Tool]

    def environment(self, backend: Backend) -> Environment:
        """The world of one episode, not yet made."""
        ...

    def oracle(self, task: Task) -> Sequence[ToolCall] | None:
        """Turns that solve a task, the last one ending it; None where none are known."""
        ...


@runtime_checkable
class SaysIdentity(Protocol):
    """A domain that says what its verdicts depend on beside its source and the task (a judge model, options)."""

    def cache_identity(self) -> str | None:
        """Equal texts mean equal verdicts; None: keep none of them. Without this method a domain that executes code
        is known by its fields, and any other is not cached, because its verdicts cost less than a look-up."""
        ...


@runtime_checkable
class SaysAnswer(Protocol):
    """A domain that says which replies have the same verdict."""

    def answer_key(self, task: Task, reply: str) -> str | None:
        """Equal keys mean equal verdicts on this task; None: only equal replies do."""
        ...


@runtime_checkable
class HasSecondOpinion(Protocol):
    """A domain that has another implementation of its verifier, which audits a sample."""

    async def second_opinion(self, task: Task, reply: str, box: Box) -> Verdict | None:
        """Judge by other means; None where they do not apply."""
        ...


def open_domain(name: str, options: Options | None = None) -> Domain:
    """Load the domain that a recipe names, such as `rg:chain_sum` or `documents`."""
    plugin, _, argument = name.partition(":")
    return plugins.load("domains", plugin).load(argument, options or {})


def task_id(domain: str, split: Split, seed: int, index: int) -> str:
    """The id from which the task can be made again."""
    return f"{domain}/{split}/{seed}/{index}"
