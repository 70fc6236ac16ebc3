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
from typing import Literal, Protocol

from burnish.sandbox.types import Box, Outcome, ResourceLimits

Guarantee = Literal["files", "network", "kernel", "processes", "memory", "disk", "output", "snapshots", "shell"]
"""`files`: nothing of the host but what the spec grants; `network`: none at all; `kernel`: no kernel setting, no
tracing, no new privilege; `processes`: all die at the end, and only so many; `memory`, `disk`, `output`: the limits
hold for the whole tree; `snapshots`: `snapshot` and `restore` work; `shell`: `open_shell` works."""

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


class Backend(Box, Protocol):
    """What isolates: runs single jobs as a `Box` does, and starts places."""

    guarantees: frozenset[Guarantee]

    async def start(self, spec: PlaceSpec) -> Place:
        """Start a place; `SandboxError` names each of `spec.needs` that this backend cannot give."""
        ...
