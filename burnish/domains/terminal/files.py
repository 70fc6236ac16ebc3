"""The files of an episode's place as its tools see and change them: view, create, replace, insert, undo.

Decisions: every change is noted in the episode's record, which also knows what a file said before. A protected file is
refused. What is no text is not shown and not edited; for the record it is a word that is equal for equal contents.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from burnish.core.errors import SandboxError
from burnish.core.types import Json
from burnish.domains.terminal import commands, edits, observations
from burnish.domains.terminal.record import Record
from burnish.domains.terminal.spec import TerminalTask
from burnish.domains.terminal.taken_out import LONGEST_FILE
from burnish.domains.terminal.told import Told, whole_number
from burnish.rewards.artifacts import NOTHING
from burnish.rewards.process import Event
from burnish.sandbox.place import Change, Command, Workspace

LONGEST_LISTING: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """See the module's docstring. `base` is the shared tree below the task's own files, if there is one."""

    place: Workspace
    record: Record
    task: TerminalTask
    base: Path | None
    command_s: float
    observation_chars: int

    async def changed(self, number: int, name: str, change: Change) -> Event | None:
        """Note what a command did to a file."""
        self._saw(name)
        return self.record.changed(number, name, None if change == "deleted" else await self._content(name))

    async def view(self, arguments: Mapping[str, Json], number: int) -> Told:
        """Show lines of a file, or the names in a folder."""
        name = commands.below_work(str(arguments["path"]))
        first, last = (whole_number(arguments.get(key, 0)) for key in ("first", "last"))
        content = await self._content(name)
        if content is None:
            return await self._listed(name, number)
        text = edits.numbered(_readable(content, name), first or 1, last)
        event = Event(step=number, kind="look", path=name, first_line=first, last_line=last if first else 0)
        shown = observations.cut(text, self.observation_chars) or "[empty]"
        return Told(text=shown, events=[event], whole=text)

    async def _listed(self, name: str, number: int) -> Told:
        path = name if name.startswith("/") else f"/work/{name}"
        outcome = await self.place.run(
            Command(argv=("ls", "-1pA", "--", path), wall_s=self.command_s, output_bytes=LONGEST_LISTING)
        )
        if not path.endswith("/") and outcome.exit_code != 0:
            raise edits.Refused(f"no file {name!r}")
        listing = observations.plain(outcome.stdout.decode(errors="replace")).strip()
        return Told(text=listing or "[an empty folder]", events=[Event(step=number, kind="look", path=name)])

    async def create(self, arguments: Mapping[str, Json], number: int) -> Told:
        """Write a file."""
        return await self._edit(arguments, number, lambda old: edits.ended(str(arguments["content"])), makes=True)

    async def replace(self, arguments: Mapping[str, Json], number: int) -> Told:
        """Replace the one place that says `old`."""
        return await self._edit(
            arguments, number, lambda old: edits.replaced(old, str(arguments["old"]), str(arguments["new"]))
        )

    async def insert(self, arguments: Mapping[str, Json], number: int) -> Told:
        """Insert after a line; 0 is the top."""
        return await self._edit(
            arguments, number,
            lambda old: edits.inserted(old, whole_number(arguments["line"]), str(arguments["content"])),
        )  # fmt: skip

    async def undo(self, arguments: Mapping[str, Json], number: int) -> Told:
        """Take back the last change of a file, whoever made it."""
        name = commands.below_work(str(arguments["path"]))
        earlier = self.record.earlier(name)
        if not earlier:
            raise edits.Refused(f"{name!r} was not changed")
        if earlier[0] is None:
            await self.place.run(Command(argv=("rm", "-f", "--", f"/work/{name}")))
        else:
            await self.place.write(name, _readable(earlier[0], name).encode())
        event = self.record.changed(number, name, earlier[0])
        return Told(text=f"{name} is as it was before its last change.", events=[event] if event else [])

    async def _edit(
        self, arguments: Mapping[str, Json], number: int, make: Callable[[str], str], *, makes: bool = False
    ) -> Told:
        name = commands.below_work(str(arguments["path"]))
        if self.record.is_protected(name):
            event = Event(step=number, kind="command", path=name, is_forbidden=True)
            return Told(text=f"{name} must stay as it is.", events=[event], succeeded=False)
        old = await self._content(name)
        if old is None and not makes:
            raise edits.Refused(f"no file {name!r}")
        new = make(_readable(old, name) if old is not None and not makes else "")
        self._saw(name)
        self.record.changed(number, name, old)  # what an ignored program did to it is no edit of this step
        await self.place.write(name, new.encode())
        event = self.record.changed(number, name, new)
        where = f", from line {event.first_line}" if event and event.first_line else ""
        return Told(text=f"{name} was changed{where}." if event else f"{name} says that already.",
                    events=[event] if event else [], succeeded=event is not None)  # fmt: skip

    def _saw(self, name: str) -> None:
        """Note what a file of the base said at the start, before its first change."""
        if self.record.knows(name):
            return
        path = self.base / name if self.base else None
        is_there = path is not None and name not in self.task.removed and path.is_file() and not path.is_symlink()
        self.record.saw(name, as_text(path.read_bytes()) if path is not None and is_there else None)

    async def _content(self, name: str) -> str | None:
        """What a file says; None where there is none that can be read."""
        try:
            return as_text(await self.place.read(name, LONGEST_FILE))
        except SandboxError:
            await self.place.run(NOTHING)
            return None


def as_text(content: bytes) -> str:
    """A file as text; what is none, as a word that is equal for equal contents."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"\0{hashlib.sha256(content).hexdigest()}"


def _readable(content: str, name: str) -> str:
    if content.startswith("\0"):
        raise edits.Refused(f"{name!r} is no text")
    return content
