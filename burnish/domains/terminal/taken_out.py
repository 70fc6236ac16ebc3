"""What an agent has changed, taken out of its place, so that it can be judged where the agent never was.

Decisions: protected files and what tools leave behind by themselves stay where they are. A file that does not come out
(too large, no plain file, one too many) is named with the reason. Of `.git`, only what is history is taken, and only
for a check that asks for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from burnish.core.errors import SandboxError
from burnish.domains.terminal.record import Record, is_ignored
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask
from burnish.domains.terminal.verdict import HISTORY, End
from burnish.rewards.artifacts import NOTHING
from burnish.sandbox.place import Command, Workspace

LONGEST_FILE: Final = 1 << 20
MOST_CHANGES: Final = 200
MOST_HISTORY: Final = 4000


async def taken_out(place: Workspace, start: str, task: TerminalTask, record: Record) -> End:
    """Everything that differs from the snapshot `start`; what a place that runs refuses is the agent's doing."""
    try:
        changes = await place.diff(start)
    except SandboxError as error:
        await place.run(NOTHING)
        return End(fault=f"the agent's place gives no changes: {error}")
    taken = [name for name in changes if not is_ignored(name) and not record.is_protected(name)]
    deleted = frozenset(name for name in taken if changes[name] == "deleted")
    end = await _files(place, [name for name in taken if name not in deleted])
    takes_history = isinstance(task.check, CommandsCheck) and task.check.includes_git
    return replace(end, deleted=deleted, history=await _history(place) if takes_history else {})


async def _files(place: Workspace, names: Sequence[str]) -> End:
    files: dict[str, bytes] = {}
    refused = dict.fromkeys(names[MOST_CHANGES:], "too many changed files")
    for name in names[:MOST_CHANGES]:
        try:
            files[name] = await place.read(name, LONGEST_FILE)
        except SandboxError as error:
            await place.run(NOTHING)
            refused[name] = str(error)[:200]
    return End(changed=files, refused=refused, executable=await _executable(place, files))


async def _executable(place: Workspace, names: Mapping[str, bytes]) -> frozenset[str]:
    if not names:
        return frozenset()
    script = 'for name; do [ -x "$name" ] && printf "%s\\0" "$name"; done'
    outcome = await place.run(Command(argv=("sh", "-c", script, "sh", *names)))
    return frozenset(outcome.stdout.decode(errors="replace").split("\0")) & names.keys()


async def _history(place: Workspace) -> dict[str, bytes]:
    """The files of the agent's `.git` that are history."""
    outcome = await place.run(Command(argv=("find", ".git", "-type", "f", "-print0")))
    names = [name for name in outcome.stdout.decode(errors="replace").split("\0") if name.startswith(HISTORY)]
    files: dict[str, bytes] = {}
    for name in names[:MOST_HISTORY]:
        try:
            files[name] = await place.read(name, LONGEST_FILE)
        except SandboxError:
            await place.run(NOTHING)
    return files
