"""Run code that a model wrote. Knows files, processes and limits; nothing of RL. No torch here.

`async with open_box("namespaces") as box: outcome = await box.run(Job(source="print(1)"))`

The boundary of `namespaces`: `host` plans a minimal read-only root, `inside/launch` builds it, a fork
server (`zygote` outside, `inside/serve` within) forks each job into namespaces of its own
(`inside/cell`), `streams` reads its outputs with cap and deadline, `selftest` tries the escapes first.
Other ways to isolate are files of `backends`. There is no fall-back: `none` must be asked for by name.
docs/security.md has the trust model.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from burnish.core.types import Json
from burnish.sandbox import backends
from burnish.sandbox.place import Backend
from burnish.sandbox.types import Box, Isolation, Job, Outcome, ResourceLimits

__all__ = ["Backend", "Box", "Isolation", "Job", "Outcome", "ResourceLimits", "backends", "missing", "open_box"]


@asynccontextmanager
async def open_box(
    isolation: Isolation = "namespaces", num_workers: int = 2, options: Mapping[str, Json] | None = None
) -> AsyncIterator[Backend]:
    """Open a backend that runs up to `num_workers` jobs at once; `SandboxError` if it would not hold them in."""
    async with backends.open_backend(isolation, options, num_workers) as backend:
        yield backend


def missing() -> list[str]:
    """Say what this host lacks for `namespaces`, each with the way to get it; empty if nothing."""
    return backends.missing("namespaces")
