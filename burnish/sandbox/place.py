"""The contract of a place that lasts: where an agent works, and where a verdict needs several steps.

A `Box` runs one job in a fresh place and keeps nothing. A `Place` is started from a spec, lives through many
commands, can be set back, and is mortal: `stop` leaves nothing of it. A backend that cannot give what a
spec `needs` refuses to start it (`SandboxError` that names what is missing); it never starts with less.

Three boxes: the agent acts in one place; only bytes leave it, through `read`, for the paths that its task
declares; a verifier works in another one, fresh; the trainer, outside both, makes the number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from burnish.sandbox.types import Box, Outcome, ResourceLimits, check_limits

Guarantee = Literal["files", "network", "kernel", "processes", "memory", "disk", "output", "snapshots", "shell"]
"""`files`: nothing of the host but what the spec grants; `network`: none at all; `kernel`: no kernel setting, no
tracing, no new privilege; `processes`: all die at the end, and only so many; `memory`, `disk`, `output`: the limits
hold for the whole tree; `snapshots`: `snapshot` and `restore` work; `shell`: `open_shell` works."""

ReplyEnding = Literal["exited", "timed_out", "over_output", "interrupted", "running", "shell_ended"]
Change = Literal["added", "changed", "deleted"]

ISOLATED: frozenset[Guarantee] = frozenset({"files", "network", "kernel", "processes", "memory", "disk", "output"})
"""What code of a model must not run without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSpec:
    """What a place is made of. `layers` are folders of the host, lowest first, seen read-only as one `/work`."""

    layers: tuple[Path, ...] = ()
    rootfs: Path | None = None
    """A folder to use as the root instead of the host's own programs, read-only."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    """For the place as a whole; `wall_s`, `cpu_s` and `output_bytes` are the defaults of one command."""
    needs: frozenset[Guarantee] = ISOLATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program to run in a place, to its end or its limits."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    cwd: str = "/work"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    wall_s: float = 60.0
    output_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        """Refuse what cannot be a limit."""
        check_limits({"wall_s": self.wall_s, "output_bytes": self.output_bytes})


class Place(Protocol):
    """A running place; paths are absolute or relative to `/work`."""

    async def run(self, command: Command) -> Outcome:
        """Run one command; what it leaves running goes on until the place stops or is restored."""
        ...

    async def write(self, path: str, content: bytes) -> None:
        """Write a file as the place's user, making folders on the way."""
        ...

    async def read(self, path: str, cap_bytes: int) -> bytes:
        """Read a regular file, following no link; `SandboxError` if it is none, or larger than `cap_bytes`."""
        ...

    async def snapshot(self) -> str:
        """Keep the tree of `/work` as it is; the name to go back to."""
        ...

    async def restore(self, snapshot: str) -> None:
        """Kill what runs, and set `/work` back."""
        ...

    async def stop(self) -> None:
        """Kill everything and leave nothing; safe to call twice."""
        ...


@runtime_checkable
class Workspace(Place, Protocol):
    """A place whose snapshots are a tree, and in which shells stay open."""

    async def fork(self, snapshot: str) -> "Workspace":
        """Start a second place from a snapshot; neither sees what the other does from then on."""
        ...

    async def diff(self, old: str | None = None, new: str | None = None) -> Mapping[str, Change]:
        """Say which files, by path below `/work`, differ from `old` (or the start) to `new` (or now)."""
        ...

    async def open_shell(self, *, strips_ansi: bool = True, rows: int = 40, columns: int = 120) -> "Shell":
        """Start a shell on a terminal of its own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a command in a shell gave. `output` has its middle cut if it `was_truncated`; `page` gives the rest.

    `interrupted` is one that Ctrl-C ended, asked for by `interrupt`; `running` one that was left to go on.
    `has_new_shell`: nothing but a new shell, in the old folder with the first environment, could end the command.
    """

    output: str
    exit_code: int | None
    cwd: str
    ending: ReplyEnding
    was_truncated: bool = False
    has_new_shell: bool = False

    @property
    def timed_out(self) -> bool:
        """Whether its time ran out."""
        return self.ending == "timed_out"


class Shell(Protocol):
    """A shell that keeps its folder and environment between commands; one command at a time."""

    async def send(self, command: str, timeout_s: float = 60.0, *, keeps_running: bool = False) -> Reply:
        """Run a command to its end; past its time it is interrupted, then killed, or left to run."""
        ...

    async def type(self, text: str, timeout_s: float = 60.0, *, keeps_running: bool = False) -> Reply:
        """Type into the command that runs, and wait on for its end."""
        ...

    async def interrupt(self) -> None:
        """Press Ctrl-C."""
        ...

    def page(self, start: int, num_bytes: int) -> bytes:
        """Read from what is kept of the last command's output, byte for byte."""
        ...

    async def close(self) -> None:
        """End the shell and what has its terminal; safe to call twice."""
        ...


class Backend(Box, Protocol):
    """What isolates: runs single jobs as a `Box` does, and starts places."""

    guarantees: frozenset[Guarantee]

    async def start(self, spec: PlaceSpec) -> Place:
        """Start a place; `SandboxError` names each of `spec.needs` that this backend cannot give."""
        ...
