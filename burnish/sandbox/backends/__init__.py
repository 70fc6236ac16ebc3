"""What isolates, one file each; the file name is the name that a recipe gives as `isolation`.

A file defines `open_backend(options, num_workers)`, which returns a `Backend`, and `missing(options)`, which says
what the host lacks for it. `open_backend` here opens one by name, tries the escapes before anything else runs
in one that says it isolates, and stops it in the end. docs/sandbox_backends.md has the table.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import ModuleType

from burnish.core import plugins
from burnish.core.types import Json
from burnish.sandbox import selftest
from burnish.sandbox.place import ISOLATED, Backend

KIND = "backends"


def names() -> list[str]:
    """The backends that ship here."""
    return plugins.names(KIND)


def load(name: str) -> ModuleType:
    """Import a backend; `ConfigError` lists the known ones."""
    return plugins.load(KIND, name)


def missing(name: str, options: Mapping[str, Json] | None = None) -> list[str]:
    """Say what this host lacks for a backend, each with the way to get it; empty if nothing."""
    return load(name).missing(options or {})


def available() -> Mapping[str, list[str]]:
    """Each backend, and what this host lacks for it with no options given."""
    return {name: missing(name) for name in names()}


@asynccontextmanager
async def open_backend(
    name: str, options: Mapping[str, Json] | None = None, num_workers: int = 2
) -> AsyncIterator[Backend]:
    """Open a backend; `SandboxError` if it says that it isolates and does not."""
    backend: Backend = await asyncio.to_thread(load(name).open_backend, options or {}, num_workers)
    try:
        if backend.guarantees >= ISOLATED:
            await selftest.prove(backend)
        yield backend
    finally:
        await backend.stop()
