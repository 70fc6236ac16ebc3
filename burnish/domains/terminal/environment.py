"""The world of one terminal episode: a fork of the task's place, a shell in it, edit tools, and a record of it all.

The state is the tree below `/work`, the shell (folder, environment, what runs in it), and what was done so far. An
action is one call of a tool; anything else is told what is wrong and counted. The reward is `verdict.py`'s.

Decisions:
- What a shell command changed is seen by comparing snapshots, not guessed from its words, so `sed -i` and an editor are
  both edits. What it looked at, searched and tested is read off its words and its output (`commands.py`).
- A protected file is refused to the edit tools (`files.py`); where the shell changes it, that is noted, and it is put
  back before the verdict.
- A state is *good* where a test run failed in fewer tests than any before; `restore` goes back to the last such one,
  else to the start.
- What the agent's place refuses (no such file, no space) is told to the agent; only a place that no longer runs
  anything is a failure of the machinery.
Not covered: programs that ask and wait for keys (a command gets no more than its time).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from burnish.core.errors import SandboxError
from burnish.core.types import Json, Message, Task
from burnish.domains import Action, Judgement, Observation
from burnish.domains.terminal import commands, edits, observations
from burnish.domains.terminal.files import Files, as_text
from burnish.domains.terminal.grounds import Grounds, Prepared
from burnish.domains.terminal.record import Record, as_json, is_ignored
from burnish.domains.terminal.spec import TerminalTask, task_of
from burnish.domains.terminal.taken_out import LONGEST_FILE, MOST_CHANGES, taken_out
from burnish.domains.terminal.told import Told, Tool, whole_number
from burnish.domains.terminal.verdict import Court, judge
from burnish.rewards.artifacts import NOTHING
from burnish.rewards.process import Event
from burnish.sandbox.place import Reply, Shell, Workspace

COLUMNS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the domain's options say of an episode."""

    command_s: float = 30.0
    observation_chars: int = 2000
    pays_process: bool = True


class TerminalEnvironment:
    """See the module's docstring, and `burnish.domains.Environment`."""

    def __init__(self, grounds: Grounds, settings: Settings) -> None:
        self._grounds, self._settings = grounds, settings
        self._task: TerminalTask | None = None
        self._place: Workspace | None = None
        self._shell: Shell | None = None
        self._last_output = ""
        self._best: tuple[int, str] | None = None
        self._tools: Mapping[str, Tool] = {}

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
            self._record.saw(name, as_text(content))
        self._files = self._files_of(self._task, self._place)
        self._tools = {
            "shell": self._run, "view": self._files.view, "create": self._files.create, "replace": self._files.replace,
            "insert": self._files.insert, "undo": self._files.undo, "page": self._page, "submit": self._submit,
        }  # fmt: skip
        return task.messages

    def _files_of(self, task: TerminalTask, place: Workspace) -> Files:
        return Files(
            place=place, record=self._record, task=task,
            base=self._grounds.base_folder(task.base) if task.base else None,
            command_s=self._settings.command_s, observation_chars=self._settings.observation_chars,
        )  # fmt: skip

    async def step(self, action: Action) -> Observation:
        """See `Environment`."""
        number = len(self._record.steps)
        if action.call is None:
            told = Told(text=action.fault, events=[Event(step=number, kind="malformed")], succeeded=False)
        else:
            told = await self._called(action.call.name, action.call.arguments, number)
        self._last_output = self._last_output if told.whole is None else told.whole
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
        end = await taken_out(self._working, self._prepared.start, self._task, self._record)
        if self._place is not None:
            await self._place.stop()  # nothing that the agent left runs on beside the verdict
        court = Court(box=self._grounds.backend, prepared=self._prepared, base_folder=self._files.base)
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
        note = self._note(reply)
        shown = observations.cut(output.strip("\n"), self._settings.observation_chars)
        text = "\n".join(part for part in (shown, note) if part) or "[no output]"
        return Told(text=text, events=found, succeeded=reply.exit_code == 0, whole=output)

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
        found = [await self._files.changed(number, name, changes[name]) for name in names]
        return [event for event in found if event is not None]

    def _note_best(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.failing is not None and (self._best is None or len(event.failing) < self._best[0]):
                self._best = (len(event.failing), self._mark)

    async def _page(self, arguments: Mapping[str, Json], number: int) -> Told:
        text = observations.page(self._last_output, whole_number(arguments["start"]), self._settings.observation_chars)
        return Told(text=text, events=[Event(step=number, kind="command")])

    async def _submit(self, arguments: Mapping[str, Json], number: int) -> Told:
        return Told(text="", events=[Event(step=number, kind="submit")], done=True)
