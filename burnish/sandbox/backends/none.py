"""No isolation at all: plain child processes, for code that you trust; asked for by name, never a fall-back.

Covered: what `burnish.sandbox.unisolated` covers for jobs; places are temporary folders, whose commands run as
ordinary processes with a deadline, an output cap and limits for each process. Not covered: every guarantee; a
place starts only for a spec that `needs` nothing. A command's child in another session outlives the place.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from burnish.core.config import Strict, validate
from burnish.core.errors import SandboxError
from burnish.core.types import Isolation, Json
from burnish.sandbox.backends.stewarded import (
    Request,
    StewardPlace,
    once_cap,
    once_command,
    once_reply,
    once_request,
    refuse_unmet,
)
from burnish.sandbox.place import Guarantee, PlaceSpec
from burnish.sandbox.types import Job, Outcome
from burnish.sandbox.unisolated import PlainBox

NAME: Final = "none"


class Config(Strict):
    """`none` has no options."""


def open_backend(options: Mapping[str, Json], num_workers: int) -> "NoneBackend":
    """Open the backend."""
    validate(Config, options, f"options of backend {NAME!r}")
    return NoneBackend(num_workers)


def missing(options: Mapping[str, Json]) -> list[str]:
    """Nothing: there is nothing to have."""
    validate(Config, options, f"options of backend {NAME!r}")
    return []


class NoneBackend:
    """Runs jobs in a `PlainBox`, and starts places that are folders."""

    isolation: Isolation = NAME
    guarantees: frozenset[Guarantee] = frozenset()

    def __init__(self, num_workers: int) -> None:
        self._box = PlainBox(num_workers)
        self._inners: set[_Inner] = set()

    async def run(self, job: Job) -> Outcome:
        """Run one job; cancelling the wait kills it first."""
        return await self._box.run(job)

    async def start(self, spec: PlaceSpec) -> StewardPlace:
        """Start a place, if it needs no guarantee."""
        refuse_unmet(NAME, self.guarantees, spec.needs)
        if spec.rootfs is not None:
            raise SandboxError(f"sandbox: backend {NAME!r} has no rootfs; use one that has")
        return await StewardPlace(self._open, spec).open()

    async def stop(self) -> None:
        """Kill what runs, and remove the folders."""
        for inner in list(self._inners):
            await inner.stop()
        await self._box.stop()

    async def _open(self) -> "_Inner":
        inner = _Inner(self._inners)
        self._inners.add(inner)
        return inner


class _Inner:
    """A folder, and the stewards that run in it at present."""

    def __init__(self, known: "set[_Inner]") -> None:
        self._known = known
        self._folder = Path(tempfile.mkdtemp(prefix="burnish-place-"))
        (self._folder / "work").mkdir()
        self._processes: set[asyncio.subprocess.Process] = set()
        self.roots: Mapping[str, str] = {"/work": str(self._folder / "work")}

    async def call(self, request: Request, wall_s: float, cap_bytes: int) -> Request:
        """Start a steward for this request."""
        process = await asyncio.create_subprocess_exec(
            *once_command(sys.executable),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=once_cap(cap_bytes),
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": self.roots["/work"]},
            cwd=self._folder,
            start_new_session=True,
        )
        self._processes.add(process)
        try:
            async with asyncio.timeout(wall_s):
                text, _ = await process.communicate(once_request(request))
            return once_reply(text)
        except TimeoutError:
            return {"ending": "timed_out"}
        finally:
            await self._end(process)

    async def stop(self) -> None:
        """Kill what runs, and remove the folder."""
        for process in list(self._processes):
            await self._end(process)
        self._known.discard(self)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        self._processes.discard(process)
