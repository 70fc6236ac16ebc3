"""Tool calls as a demonstration makes them: one dictionary a turn, `name` and `arguments`, the last one `submit`.

Decisions: an oracle works as a good engineer would (reproduce, locate, edit, test, submit), so that what a model is
taught earns the process parts of the reward too; where a task is for the smallest models it is shorter, and looks and
reproduces in one command. Replacements name whole lines that stand in their file just once.
"""

from collections.abc import Mapping

from burnish.core.types import Json

Call = Mapping[str, Json]
Calls = tuple[Call, ...]


def shell(command: str) -> Call:
    """Run a command."""
    return {"name": "shell", "arguments": {"command": command}}


def view(path: str, first: int = 1, last: int = 0) -> Call:
    """Look at lines of a file; `last` 0 is its end."""
    span: dict[str, Json] = {"first": first, "last": last} if last else {}
    return {"name": "view", "arguments": {"path": path, **span}}


def create(path: str, content: str) -> Call:
    """Write a file."""
    return {"name": "create", "arguments": {"path": path, "content": content}}


def replace(path: str, old: str, new: str) -> Call:
    """Replace a text that stands in the file once."""
    return {"name": "replace", "arguments": {"path": path, "old": old, "new": new}}


def submit() -> Call:
    """Say that the work is done."""
    return {"name": "submit", "arguments": {}}
