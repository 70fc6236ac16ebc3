"""The contract of a sandbox: a job goes in, an outcome comes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, Protocol

from burnish.core.errors import SandboxError
from burnish.core.types import Isolation

__all__ = ["Box", "Ending", "Isolation", "Job", "Outcome", "ResourceLimits"]

Ending = Literal["exited", "killed", "timed_out", "over_output", "over_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """What one job may use; sizes are totals for its whole process tree."""

    wall_s: float = 5.0
    cpu_s: float = 5.0
    memory_mb: int = 512
    disk_mb: int = 16
    num_files: int = 1024
    num_processes: int = 32
    output_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A Python program and what it is given.

    `files` are written into its working folder, names relative. `preload` names modules that the
    sandbox has already imported when the job starts (a start-up cost paid once, not a grant).
    The program may write its answer to the descriptor in the environment variable
    `BURNISH_ANSWER_FD`, apart from stdout.
    """

    source: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    preload: tuple[str, ...] = ()
    limits: ResourceLimits = field(default_factory=ResourceLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a job. `exit_code` is None unless it exited by itself.

    `cpu_s` is the processor time of its whole tree, where a control group counts it, else None.
    """

    ending: Ending
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    answer: bytes
    wall_s: float
    cpu_s: float | None = None


class Box(Protocol):
    """Runs jobs, many at a time; each in a fresh place, nothing survives it."""

    isolation: Isolation

    async def run(self, job: Job) -> Outcome:
        """Run one job to its end or its limits; `SandboxError` if the sandbox itself fails."""
        ...

    async def stop(self) -> None:
        """Kill everything that was started; safe to call twice."""
        ...


def check_file_names(job: Job) -> None:
    """Refuse names that would leave the working folder."""
    for name in job.files:
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise SandboxError(f"sandbox: bad file name {name!r} in a job; expected one relative to its working folder")
