"""Plays the tool calls of a terminal task through the domain's environment, and says what its verdict is."""

from collections.abc import Sequence
from pathlib import Path

from burnish.core.types import Message, Task, ToolCall, Verdict
from burnish.domains import Action
from burnish.domains.terminal.environment import Settings, TerminalEnvironment
from burnish.domains.terminal.grounds import Grounds
from burnish.domains.terminal.oracle import Call
from burnish.domains.terminal.spec import TerminalTask
from burnish.sandbox import Backend


async def outcome(
    backend: Backend, task: TerminalTask, calls: Sequence[Call], base: Path | None = None
) -> tuple[float, str]:
    """What the end of the calls is worth on a held-out task, and what was observed on the way."""
    verdict, said = await _played(backend, task, calls, base)
    assert verdict.score is not None, verdict
    return verdict.score, "\n".join([*said, verdict.evidence])


async def judged_verdict(backend: Backend, task: TerminalTask, calls: Sequence[Call]) -> Verdict:
    """The verdict on the end of the calls, whatever its kind."""
    return (await _played(backend, task, calls, None))[0]


async def _played(
    backend: Backend, task: TerminalTask, calls: Sequence[Call], base: Path | None
) -> tuple[Verdict, list[str]]:
    grounds = Grounds(backend=backend, base_folder=lambda _: base or Path("/nowhere"))
    environment = TerminalEnvironment(grounds, Settings(command_s=90.0))
    record = Task(
        id="t", domain="terminal", messages=(Message(role="user", content=task.instruction),),
        truth={"split": "eval", "task": task.to_json()},
    )  # fmt: skip
    try:
        await environment.reset(record, 1)
        actions = [Action(text="", call=ToolCall(name=call["name"], arguments=call["arguments"])) for call in calls]
        said = [(await environment.step(action)).text for action in actions]
        return (await environment.verdict()).verdict, said
    finally:
        await environment.stop()
