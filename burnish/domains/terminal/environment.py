"""The world of one terminal episode: a fork of the task's place, a shell in it, edit tools, and a record of it all.

The state is the tree below `/work`, the shell (folder, environment, what runs in it), and what was done so far. An
action is one call of a tool; anything else is told what is wrong and counted. The reward is `verdict.py`'s.

Decisions:
- What a shell command changed is seen by comparing snapshots, not guessed from its words, so `sed -i` and an editor are
  both edits. What it looked at, searched and tested is read off its words and its output (`commands.py`).
- A protected file is refused to the edit tools; where the shell changes it, that is noted, and it is put back before
  the verdict.
- A state is *good* where a test run failed in fewer tests than any before; `restore` goes back to the last such one,
  else to the start.
- What the agent's place refuses (no such file, no space) is told to the agent; only a place that no longer runs
  anything is a failure of the machinery.
Not covered: programs that ask and wait for keys (a command gets no more than its time).
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from burnish.core.errors import SandboxError
from burnish.core.types import Json, Message, Task
from burnish.domains import Action, Judgement, Observation
from burnish.domains.terminal import commands, edits, observations
from burnish.domains.terminal.grounds import Grounds, Prepared
from burnish.domains.terminal.record import Record, as_json, is_ignored
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask, task_of
from burnish.domains.terminal.verdict import HISTORY, Court, End, judge
from burnish.rewards.artifacts import NOTHING
from burnish.rewards.process import Event
from burnish.sandbox.place import Change, Command, Reply, Shell, Workspace

LONGEST_FILE: Final = 1 << 20
MOST_CHANGES: Final = 200
MOST_HISTORY: Final = 4000
LONGEST_LISTING: Final = 4000
COLUMNS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the domain's options say of an episode."""

    command_s: float = 30.0
    observation_chars: int = 2000
    pays_process: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a tool did: what the policy is told, what happened, whether it did what was asked."""

    text: str
    events: Sequence[Event] = ()
    succeeded: bool = True
    done: bool = False


Tool = Callable[[Mapping[str, Json], int], Awaitable[Told]]


class TerminalEnvironment:
    """See the module's docstring, and `burnish.domains.Environment`."""

    def __init__(self, grounds: Grounds, settings: Settings) -> None:
        self._grounds, self._settings = grounds, settings
        self._task: TerminalTask | None = None
        self._place: Workspace | None = None
        self._shell: Shell | None = None
        self._last_output = ""
        self._best: tuple[int, str] | None = None
        self._tools: Mapping[str, Tool] = {
            "shell": self._run, "view": self._view, "create": self._create, "replace": self._replace,
            "insert": self._insert, "undo": self._undo, "page": self._page, "submit": self._submit,
        }  # fmt: skip

    async def reset(self, task: Task, seed: int) -> Sequence[Message]:
        """See `Environment`."""
        self._task = task_of(task)
        self._pays_process = self._settings.pays_process and task.truth["split"] == "train"
        self._prepared: Prepared = await self._grounds.take(self._task)
        self._place = await self._prepared.place.fork(self._prepared.start)
        self._mark = self._prepared.start
        self._record = Record(protected=self._task.protected)
        for name, text in self._task.files.items():
            self._record.saw(name, text)
        for name, content in self._prepared.files.items():
            self._record.saw(name, _as_text(content))
        return task.messages

    async def step(self, action: Action) -> Observation:
        """See `Environment`."""
        number = len(self._record.steps)
        if action.call is None:
            told = Told(text=action.fault, events=[Event(step=number, kind="malformed")], succeeded=False)
        else:
            told = await self._called(action.call.name, action.call.arguments, number)
        self._record.end_step(told.events, succeeded=told.succeeded)
        name = action.call.name if action.call else ""
        events = tuple({**as_json(event), "tool": name, "succeeded": told.succeeded} for event in told.events)
        return Observation(text=told.text, done=told.done, events=events)

    async def restore(self) -> None:
        """See `Environment`."""
        self._shell = None
        await self._working.restore(self._best[1] if self._best else self._prepared.start)

    async def verdict(self) -> Judgement:
        """See `Environment`."""
        assert self._task is not None
        end = await self._end()
        if self._place is not None:
            await self._place.stop()  # nothing that the agent left runs on beside the verdict
        base = self._grounds.base_folder(self._task.base) if self._task.base else None
        court = Court(box=self._grounds.backend, prepared=self._prepared, base_folder=base)
        return await judge(self._task, end, self._record, court, pays_process=self._pays_process)

    async def stop(self) -> None:
        """See `Environment`."""
        task, place = self._task, self._place
        self._task = self._place = self._shell = None
        try:
            if place is not None:
                await place.stop()
        finally:
            if task is not None:
                await self._grounds.give_back(task)

    @property
    def _working(self) -> Workspace:
        if self._place is None:
            raise SandboxError("sandbox: this episode has no place; it was not reset, or was stopped")
        return self._place

    async def _called(self, name: str, arguments: Mapping[str, Json], number: int) -> Told:
        """Run a tool; what it refuses, and what the place refuses it, is told."""
        try:
            return await self._tools[name](arguments, number)
        except edits.Refused as error:
            return self._refused(str(error), number)
        except SandboxError as error:
            await self._working.run(NOTHING)  # raises if it is the place that has failed
            return self._refused(str(error).removeprefix("sandbox: "), number)

    def _refused(self, why: str, number: int) -> Told:
        return Told(text=observations.plain(why)[:400], events=[Event(step=number, kind="command")], succeeded=False)

    # The shell

    async def _run(self, arguments: Mapping[str, Json], number: int) -> Told:
        command = str(arguments["command"])
        if not command.strip():
            raise edits.Refused("an empty command")
        if len(command) > commands.LONGEST:
            raise edits.Refused(f"a command of {len(command)} characters; write a script with create, and run it")
        if self._shell is None:
            self._shell = await self._working.open_shell(columns=COLUMNS)
        reply = await self._shell.send(command, timeout_s=self._settings.command_s)
        output = self._whole(reply)
        if reply.ending == "shell_ended":
            self._shell = None
        ran = commands.Ran(command=command, output=output, cwd=reply.cwd, exit_code=reply.exit_code)
        found = commands.events(number, ran, self._task.fault.failing if self._task and self._task.fault else ())
        found += await self._changes(number)
        self._note_best(found)
        self._last_output = output
        note = self._note(reply)
        shown = observations.cut(output.strip("\n"), self._settings.observation_chars)
        text = "\n".join(part for part in (shown, note) if part) or "[no output]"
        return Told(text=text, events=found, succeeded=reply.exit_code == 0)

    def _whole(self, reply: Reply) -> str:
        """All that is kept of what a command printed."""
        if not reply.was_truncated or self._shell is None:
            return observations.plain(reply.output)
        return observations.plain(self._shell.page(0, LONGEST_FILE).decode(errors="replace"))

    def _note(self, reply: Reply) -> str:
        match reply.ending:
            case "timed_out":
                return f"[stopped after {self._settings.command_s:g} s]"
            case "over_output":
                return "[stopped: too much output]"
            case "shell_ended":
                return "[the shell has ended; the next command begins in a new one, in /work]"
            case _:
                return f"[exit code {reply.exit_code}]" if reply.exit_code else ""

    async def _changes(self, number: int) -> list[Event]:
        """What has changed since the last look."""
        try:
            mark = await self._working.snapshot()
            changes = await self._working.diff(self._mark, mark)
        except SandboxError:
            await self._working.run(NOTHING)  # else its disk is full, which is for the agent to find out
            return []
        self._mark = mark
        names = [name for name in changes if not is_ignored(name)][:MOST_CHANGES]
        found = [await self._changed(number, name, changes[name]) for name in names]
        return [event for event in found if event is not None]

    async def _changed(self, number: int, name: str, change: Change) -> Event | None:
        self._saw(name)
        return self._record.changed(number, name, None if change == "deleted" else await self._content(name))

    def _note_best(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.failing is not None and (self._best is None or len(event.failing) < self._best[0]):
                self._best = (len(event.failing), self._mark)

    async def _page(self, arguments: Mapping[str, Json], number: int) -> Told:
        text = observations.page(self._last_output, _whole_number(arguments["start"]), self._settings.observation_chars)
        return Told(text=text, events=[Event(step=number, kind="command")])

    async def _submit(self, arguments: Mapping[str, Json], number: int) -> Told:
        return Told(text="", events=[Event(step=number, kind="submit")], done=True)

    # Files

    async def _view(self, arguments: Mapping[str, Json], number: int) -> Told:
        name = commands.below_work(str(arguments["path"]))
        first, last = (_whole_number(arguments.get(key, 0)) for key in ("first", "last"))
        content = await self._content(name)
        if content is None:
            return await self._listed(name, number)
        text = edits.numbered(_readable(content, name), first or 1, last)
        self._last_output = text
        event = Event(step=number, kind="look", path=name, first_line=first, last_line=last if first else 0)
        return Told(text=observations.cut(text, self._settings.observation_chars) or "[empty]", events=[event])

    async def _listed(self, name: str, number: int) -> Told:
        path = name if name.startswith("/") else f"/work/{name}"
        outcome = await self._working.run(
            Command(argv=("ls", "-1pA", "--", path), wall_s=self._settings.command_s, output_bytes=LONGEST_LISTING)
        )
        if not path.endswith("/") and outcome.exit_code != 0:
            raise edits.Refused(f"no file {name!r}")
        listing = observations.plain(outcome.stdout.decode(errors="replace")).strip()
        return Told(text=listing or "[an empty folder]", events=[Event(step=number, kind="look", path=name)])

    async def _create(self, arguments: Mapping[str, Json], number: int) -> Told:
        return await self._edit(arguments, number, lambda old: edits.ended(str(arguments["content"])), makes=True)

    async def _replace(self, arguments: Mapping[str, Json], number: int) -> Told:
        return await self._edit(
            arguments, number, lambda old: edits.replaced(old, str(arguments["old"]), str(arguments["new"]))
        )

    async def _insert(self, arguments: Mapping[str, Json], number: int) -> Told:
        return await self._edit(
            arguments, number,
            lambda old: edits.inserted(old, _whole_number(arguments["line"]), str(arguments["content"])),
        )  # fmt: skip

    async def _undo(self, arguments: Mapping[str, Json], number: int) -> Told:
        name = commands.below_work(str(arguments["path"]))
        earlier = self._record.earlier(name)
        if not earlier:
            raise edits.Refused(f"{name!r} was not changed")
        if earlier[0] is None:
            await self._working.run(Command(argv=("rm", "-f", "--", f"/work/{name}")))
        else:
            await self._working.write(name, _readable(earlier[0], name).encode())
        event = self._record.changed(number, name, earlier[0])
        return Told(text=f"{name} is as it was before its last change.", events=[event] if event else [])

    async def _edit(
        self, arguments: Mapping[str, Json], number: int, make: Callable[[str], str], *, makes: bool = False
    ) -> Told:
        name = commands.below_work(str(arguments["path"]))
        if self._record.is_protected(name):
            event = Event(step=number, kind="command", path=name, is_forbidden=True)
            return Told(text=f"{name} must stay as it is.", events=[event], succeeded=False)
        old = await self._content(name)
        if old is None and not makes:
            raise edits.Refused(f"no file {name!r}")
        new = make(_readable(old, name) if old is not None and not makes else "")
        self._saw(name)
        self._record.changed(number, name, old)  # what an ignored program did to it is no edit of this step
        await self._working.write(name, new.encode())
        event = self._record.changed(number, name, new)
        where = f", from line {event.first_line}" if event and event.first_line else ""
        return Told(text=f"{name} was changed{where}." if event else f"{name} says that already.",
                    events=[event] if event else [], succeeded=event is not None)  # fmt: skip

    def _saw(self, name: str) -> None:
        """Note what a file of the base said at the start, before its first change."""
        if self._task is None or self._record.knows(name):
            return
        path = self._grounds.base_folder(self._task.base) / name if self._task.base else None
        is_there = path is not None and name not in self._task.removed and path.is_file() and not path.is_symlink()
        self._record.saw(name, _as_text(path.read_bytes()) if path is not None and is_there else None)

    async def _content(self, name: str) -> str | None:
        """What a file says; None where there is none that can be read."""
        try:
            return _as_text(await self._working.read(name, LONGEST_FILE))
        except SandboxError:
            await self._working.run(NOTHING)
            return None

    # The end

    async def _end(self) -> End:
        """Take what the agent has changed out of its place."""
        place, start = self._working, self._prepared.start
        try:
            changes = await place.diff(start)
        except SandboxError as error:
            await place.run(NOTHING)
            return End(fault=f"the agent's place gives no changes: {error}")
        taken = [name for name in changes if not is_ignored(name) and not self._record.is_protected(name)]
        deleted = frozenset(name for name in taken if changes[name] == "deleted")
        end = await self._out([name for name in taken if name not in deleted])
        history = {}
        assert self._task is not None
        if isinstance(self._task.check, CommandsCheck) and self._task.check.includes_git:
            history = await self._history()
        return replace(end, deleted=deleted, history=history)

    async def _out(self, names: Sequence[str]) -> End:
        files: dict[str, bytes] = {}
        refused = dict.fromkeys(names[MOST_CHANGES:], "too many changed files")
        for name in names[:MOST_CHANGES]:
            try:
                files[name] = await self._working.read(name, LONGEST_FILE)
            except SandboxError as error:
                await self._working.run(NOTHING)
                refused[name] = str(error)[:200]
        return End(changed=files, refused=refused, executable=await self._executable(files))

    async def _executable(self, names: Mapping[str, bytes]) -> frozenset[str]:
        if not names:
            return frozenset()
        script = 'for name; do [ -x "$name" ] && printf "%s\\0" "$name"; done'
        outcome = await self._working.run(Command(argv=("sh", "-c", script, "sh", *names)))
        return frozenset(outcome.stdout.decode(errors="replace").split("\0")) & names.keys()

    async def _history(self) -> dict[str, bytes]:
        """The files of the agent's `.git` that are history."""
        outcome = await self._working.run(Command(argv=("find", ".git", "-type", "f", "-print0")))
        names = [name for name in outcome.stdout.decode(errors="replace").split("\0") if name.startswith(HISTORY)]
        files: dict[str, bytes] = {}
        for name in names[:MOST_HISTORY]:
            try:
                files[name] = await self._working.read(name, LONGEST_FILE)
            except SandboxError:
                await self._working.run(NOTHING)
        return files


def _as_text(content: bytes) -> str:
    """A file as text; what is none, as a word that is equal for equal contents."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"\0{hashlib.sha256(content).hexdigest()}"


def _readable(content: str, name: str) -> str:
    if content.startswith("\0"):
        raise edits.Refused(f"{name!r} is no text")
    return content


def _whole_number(value: Json) -> int:
    return value if isinstance(value, int) else 0
