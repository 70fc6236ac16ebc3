"""One task of the terminal: what lies in the agent's folder, what it is told, and how its end is judged.

A task is a value: whoever makes one (a generator, a builder from packages, a reader of another system's folders) is not
asked again. `to_json` and `from_json` are exact inverses, so that tasks can be kept as lines of a file and travel in
`Task.truth`.

Decisions: `files` are text; what is no text is made by `setup` (an archive, a wheel, a database), which also makes
what is not a file (the history of a repository). A large tree that many tasks share is named by its content (`base`)
and not held; `files` and `removed` say how the task's tree differs from it. There are three ways to judge, and each
says what it needs: tests, an expected end state, or commands for what files alone do not show.
Covered: everything that the verdict needs, the answer included; so this record is never shown and never enters the
agent's place. Not covered: empty folders, links, owners.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Literal

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError, with_config

from burnish.core.errors import ConfigError
from burnish.core.types import Json, Task
from burnish.rewards.code_tests import Framework, Trust
from burnish.rewards.end_state import ExpectedFile
from burnish.rewards.process import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsCheck:
    """Judged by tests, in a fresh box: `required` fail at the start and must pass, `kept` pass and must go on."""

    __test__ = False  # no class of tests, whatever pytest thinks of its name

    kind: Literal["tests"] = "tests"
    required: tuple[str, ...]
    kept: tuple[str, ...] = ()
    tests: Mapping[str, str]
    """Files by relative name, hidden ones included; they are laid over the agent's tree and never into its place."""
    modules: tuple[str, ...]
    roots: tuple[str, ...] = ("",)
    framework: Framework = "pytest"
    trust: Trust = "same_interpreter"
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that the tests read, next to them."""
    is_all_or_nothing: bool = True
    test_cpu_s: float = 2.0
    test_wall_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndStateCheck:
    """Judged by the files that are there at the end."""

    kind: Literal["end_state"] = "end_state"
    expected: tuple[ExpectedFile, ...]
    allows_others: bool = True
    """Off: a file that was neither there at the start nor expected is one more wrong file."""
    is_all_or_nothing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsCheck:
    """Judged by a bash script in a fresh place over the agent's tree: exit code 0 is solved."""

    kind: Literal["commands"] = "commands"
    script: str
    includes_git: bool = False
    """Whether the tree that is judged has the agent's `.git`; without it, the one that `setup` makes."""
    wall_s: float = 30.0


Check = TestsCheck | EndStateCheck | CommandsCheck


@with_config(ConfigDict(extra="forbid", strict=True, val_json_bytes="base64", allow_inf_nan=False))
@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalTask:
    """One task, whole. Names are relative to `/work`, the agent's folder."""

    family: str
    """For example `fix_line` or `package:toolz`."""
    level: int
    """0 is the easiest."""
    instruction: str
    """What the agent is told; it names no fault."""
    files: Mapping[str, str]
    executable: tuple[str, ...] = ()
    base: str = ""
    """The content hash of a shared, read-only tree below `files`; empty is none. A store knows where it lies."""
    removed: tuple[str, ...] = ()
    """Names of the base that are absent."""
    setup: tuple[str, ...] = ()
    """Bash commands that run in `/work` before the agent comes; what they leave is part of the task."""
    protected: tuple[str, ...] = ()
    """Globs of what the agent may not change; a changed file is put back before the verdict, and counted."""
    check: TestsCheck | EndStateCheck | CommandsCheck
    fault: Fault | None = None
    oracle: tuple[Mapping[str, JsonValue], ...] = ()
    """Tool calls, each with `name` and `arguments`, that solve the task; the last one submits."""
    max_steps: int = 12
    source: str = ""
    """What tasks share (a repository, a generator); statistics are clustered by it."""
    tags: tuple[str, ...] = ()
    """For example the kinds of mutation."""

    def to_json(self) -> Json:
        """As a JSON value: equal tasks give equal ones, so its hash is the task's."""
        return _plain(asdict(self))


_READER: Final = TypeAdapter(TerminalTask)


def from_json(line: str | bytes, where: str = "a terminal task") -> TerminalTask:
    """Read a task from JSON text, the inverse of `to_json`; `ConfigError` names the first fault."""
    try:
        return _READER.validate_json(line)
    except ValidationError as error:
        fault = error.errors()[0]
        path = ".".join(map(str, fault["loc"]))
        raise ConfigError(f"{where}: {path or 'the whole'}: {fault['msg']}; got {repr(fault['input'])[:80]}") from None


def task_of(task: Task) -> TerminalTask:
    """The record that a task of the domain carries."""
    return from_json(json.dumps(task.truth["task"]), f"the truth of task {task.id!r}")


def _plain(value: object) -> Json:
    """Containers as JSON has them: a set is sorted, bytes are base64."""
    match value:
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case frozenset():
            return [_plain(inner) for inner in sorted(value)]
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case bytes():
            return b64encode(value).decode("ascii")
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"no JSON value: {type(value).__name__}")
