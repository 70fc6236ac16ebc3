"""Run code that a model wrote. Knows files, processes and limits; nothing of RL. No torch here.

`async with open_box("namespaces") as box: outcome = await box.run(Job(source="print(1)"))`

The boundary of `namespaces`: `host` plans a minimal read-only root, `inside/launch` builds it, a fork
server (`zygote` outside, `inside/serve` within) forks each job into namespaces of its own
(`inside/cell`), `streams` reads its outputs with cap and deadline, `selftest` tries the escapes first.
There is no fall-back: `none` must be asked for by name. docs/security.md has the trust model.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from burnish.core.errors import SandboxError
from burnish.sandbox import host, selftest
from burnish.sandbox.namespaces import NamespaceBox
from burnish.sandbox.streams import Cancel
from burnish.sandbox.types import Box, Isolation, Job, Outcome, ResourceLimits
from burnish.sandbox.unisolated import PlainBox
from burnish.sandbox.zygote import Zygote

__all__ = ["Box", "Isolation", "Job", "Outcome", "ResourceLimits", "missing", "open_box"]


@asynccontextmanager
async def open_box(isolation: Isolation = "namespaces", num_workers: int = 2) -> AsyncIterator[Box]:
    """Open a box that runs up to `num_workers` jobs at once; `SandboxError` if it would not hold them in."""
    box: Box = PlainBox(num_workers) if isolation == "none" else _isolated_box(num_workers)
    try:
        if isolation == "namespaces":
            await selftest.prove(box)
        yield box
    finally:
        await box.stop()


def missing() -> list[str]:
    """Say what this host lacks for `namespaces`, each with the way to get it; empty if nothing."""
    lacks = host.lacks()
    if lacks:
        return lacks
    zygote, cancel = Zygote(()), Cancel()
    try:
        zygote.wait_until_ready(cancel)
    except SandboxError as error:
        return [str(error)]
    finally:
        zygote.close()
        cancel.close()
    return []


def _isolated_box(num_workers: int) -> NamespaceBox:
    lacks = host.lacks()
    if lacks:
        raise SandboxError(
            f"sandbox: this host cannot isolate; it lacks {'; '.join(lacks)}. "
            "Code of a model does not run here unless the recipe says isolation = 'none'"
        )
    return NamespaceBox(num_workers)
