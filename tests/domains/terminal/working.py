"""A small task of the terminal, and how to play calls in it."""

from collections.abc import Sequence
from dataclasses import replace

from burnish.core.types import Message, Task, ToolCall
from burnish.domains import Action, Judgement, Observation
from burnish.domains.terminal.environment import Settings, TerminalEnvironment
from burnish.domains.terminal.grounds import Grounds
from burnish.domains.terminal.spec import TerminalTask, TestsCheck
from burnish.rewards.process import Fault, Place
from burnish.sandbox import Backend

CODE = "def double(n):\n    return n * 3\n\n\ndef half(n):\n    return n // 2\n"
SHOWN = (
    "from sums import double, half\n\n\ndef test_double():\n    assert double(2) == 4\n\n\n"
    "def test_half():\n    assert half(4) == 2\n"
)
HIDDEN = SHOWN + "\n\ndef test_double_more():\n    assert double(7) == 14\n"
TESTS = TestsCheck(
    required=("test_sums.py::test_double", "test_sums.py::test_double_more"),
    kept=("test_sums.py::test_half",),
    tests={"test_sums.py": HIDDEN},
    modules=("sums",),
)
FIX = TerminalTask(
    family="fix", level=0, instruction="test_sums.py fails.", source="fix", max_steps=12,
    files={"sums.py": CODE, "test_sums.py": SHOWN}, protected=("test_*.py",), check=TESTS,
    fault=Fault(
        places=(Place(path="sums.py", first_line=1, last_line=2),),
        failing=frozenset({"test_sums.py::test_double"}), num_lines=1,
    ),
)  # fmt: skip
TEST = "python3 -m pytest -q --tb=line test_sums.py"
EDIT = ("replace", {"path": "sums.py", "old": "n * 3", "new": "n * 2"})
SUBMIT = ("submit", {})


def shell(command: str):
    return ("shell", {"command": command})


async def played(
    backend: Backend, task: TerminalTask, calls: Sequence, *, split: str = "train", ends: str = "verdict", **settings
) -> tuple[list[Observation], Judgement]:
    """Make each call in a world of its own; a text in place of a call is one that cannot be read."""
    grounds = Grounds(backend=backend, base_folder=lambda base: (_ for _ in ()).throw(KeyError(base)))
    environment = TerminalEnvironment(grounds, replace(Settings(), **settings))
    record = Task(
        id="t", domain="terminal", messages=(Message(role="user", content="do"),),
        truth={"split": split, "task": task.to_json()},
    )  # fmt: skip
    try:
        await environment.reset(record, 1)
        seen = [await environment.step(_action(call)) for call in calls]
        if ends == "restore":
            await environment.restore()
        return seen, await environment.verdict()
    finally:
        await environment.stop()
        await environment.stop()


def _action(call) -> Action:
    if isinstance(call, str):
        return Action(text="?", fault=call)
    return Action(text="", call=ToolCall(name=call[0], arguments=call[1]))
