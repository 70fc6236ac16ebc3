"""What travels between `remote` and `server`: JSON, bytes as base64; docs/sandbox_backends.md has the table.

A job is written by the trainer and an outcome by a server that it trusts as it trusts itself; both are checked
all the same, since a version may differ or a proxy may answer.
"""

import base64
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from burnish.core.config import Strict
from burnish.sandbox.place import Command, Guarantee
from burnish.sandbox.types import MOST, Ending, Job, Outcome, ResourceLimits

VERSION = 1


def _from_base64(text: object) -> object:
    return base64.b64decode(text, validate=True) if isinstance(text, str) else text


def _to_base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


Bytes = Annotated[bytes, BeforeValidator(_from_base64), PlainSerializer(_to_base64, when_used="json")]
Path = Annotated[str, Field(min_length=1, max_length=4096)]


class Limits(Strict):
    """`ResourceLimits`."""

    wall_s: float = Field(gt=0, le=MOST["wall_s"])
    cpu_s: float = Field(gt=0, le=MOST["cpu_s"])
    memory_mb: int = Field(gt=0, le=MOST["memory_mb"])
    disk_mb: int = Field(gt=0, le=MOST["disk_mb"])
    num_files: int = Field(gt=0, le=MOST["num_files"])
    num_processes: int = Field(gt=0, le=MOST["num_processes"])
    output_bytes: int = Field(gt=0, le=MOST["output_bytes"])

    def limits(self) -> ResourceLimits:
        """The record."""
        return ResourceLimits(**self.model_dump())


class JobBody(Strict):
    """`Job`."""

    source: Bytes
    files: dict[str, Bytes]
    stdin: Bytes
    preload: list[str]
    limits: Limits

    def job(self) -> Job:
        """The record."""
        return Job(
            source=self.source.decode("utf-8", "surrogatepass"),
            files=self.files,
            stdin=self.stdin,
            preload=tuple(self.preload),
            limits=self.limits.limits(),
        )


class PlaceBody(Strict):
    """`PlaceSpec`, its layers packed into one archive."""

    layers: Bytes
    env: dict[str, str]
    limits: Limits
    needs: list[Guarantee]


class CommandBody(Strict):
    """`Command`."""

    argv: list[str] = Field(min_length=1)
    stdin: Bytes
    cwd: str
    env: dict[str, str]
    wall_s: float = Field(gt=0, le=MOST["wall_s"])
    output_bytes: int = Field(gt=0, le=MOST["output_bytes"])

    def command(self) -> Command:
        """The record."""
        return Command(
            argv=tuple(self.argv),
            stdin=self.stdin,
            cwd=self.cwd,
            env=self.env,
            wall_s=self.wall_s,
            output_bytes=self.output_bytes,
        )


class WriteBody(Strict):
    """Write one file."""

    path: Path
    content: Bytes


class ReadBody(Strict):
    """Read one file."""

    path: Path
    cap_bytes: int = Field(ge=0)


class ContentBody(Strict):
    """What was read."""

    content: Bytes


class SnapshotBody(Strict):
    """A snapshot's name."""

    snapshot: str


class PlaceAnswer(Strict):
    """A place that was started, and how soon its client must be heard of again."""

    place: str
    lease_s: float


class Health(Strict):
    """What a server offers."""

    version: int
    backend: str
    guarantees: list[Guarantee]


class OutcomeBody(Strict):
    """`Outcome`."""

    ending: Ending
    exit_code: int | None
    stdout: Bytes
    stderr: Bytes
    answer: Bytes
    wall_s: float
    cpu_s: float | None

    def outcome(self) -> Outcome:
        """The record."""
        return Outcome(**self.model_dump())


class Nothing(Strict):
    """No more to say."""


class Fault(Strict):
    """What went wrong, for a person."""

    error: str


def of_job(job: Job) -> JobBody:
    """Write a job down."""
    return JobBody(
        source=job.source.encode("utf-8", "surrogatepass"),
        files=dict(job.files),
        stdin=job.stdin,
        preload=list(job.preload),
        limits=of_limits(job.limits),
    )


def of_limits(limits: ResourceLimits) -> Limits:
    """Write limits down."""
    return Limits(**_floats(asdict(limits)))


def of_command(command: Command) -> CommandBody:
    """Write a command down."""
    return CommandBody(
        argv=list(command.argv),
        stdin=command.stdin,
        cwd=command.cwd,
        env=dict(command.env),
        wall_s=float(command.wall_s),
        output_bytes=command.output_bytes,
    )


def of_outcome(outcome: Outcome) -> OutcomeBody:
    """Write an outcome down."""
    return OutcomeBody(**asdict(outcome))


def _floats(values: dict[str, Any]) -> dict[str, Any]:
    return {name: float(value) if name.endswith("_s") else int(value) for name, value in values.items()}
