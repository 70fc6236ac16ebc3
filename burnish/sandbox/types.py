"""The contract of a sandbox: a job goes in, an outcome comes out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Final, Literal, Protocol

from burnish.core.errors import SandboxError
from burnish.core.types import Isolation

__all__ = ["MOST", "Box", "Ending", "Isolation", "Job", "Outcome", "ResourceLimits", "check_limits"]

Ending = Literal["exited", "killed", "timed_out", "over_output", "over_memory"]

MOST: Final[Mapping[str, int]] = {
    "wall_s": 1_000_000,
    "cpu_s": 1_000_000,
    "memory_mb": 1 << 24,
    "disk_mb": 1 << 24,
    "num_files": 1 << 30,
    "num_processes": 1 << 20,
    "output_bytes": 1 << 34,
}
"""What a limit may be at most: beyond it, some kernel call or message on the way no longer holds the number."""


def check_limits(limits: Mapping[str, object]) -> None:
    """Refuse a limit that is no number, or one that nothing could hold."""
    for name, value in limits.items():
        kinds, kind = ((int, float), "a number above 0") if name.endswith("_s") else ((int,), "a whole number from 1")
        if not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value <= MOST[name]:
            raise SandboxError(f"sandbox: bad limit {name} = {value!r}; expected {kind} to {MOST[name]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """What one job may use; sizes are totals for its whole process tree. `MOST` says what each may be."""

    wall_s: float = 5.0
    cpu_s: float = 5.0
    memory_mb: int = 512
    disk_mb: int = 16
    num_files: int = 1024
    num_processes: int = 32
    output_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        """Refuse what cannot be a limit."""
        check_limits(asdict(self))


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
