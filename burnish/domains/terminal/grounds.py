"""Where episodes happen: one place is prepared a task, and each episode of that task works in a fork of it.

Members of a group, and the verdicts on them, begin from one snapshot that was made before any agent came. A fork costs
some milliseconds, whatever the task's tree and setup cost. The prepared place ends with the last that uses it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from burnish.core.errors import SandboxError
from burnish.core.types import sha256_json
from burnish.domains.terminal.spec import TerminalTask
from burnish.sandbox import Backend, ResourceLimits
from burnish.sandbox.place import ISOLATED, Command, Guarantee, PlaceSpec, Workspace

LIMITS: Final = ResourceLimits(
    wall_s=600.0, cpu_s=60.0, memory_mb=768, disk_mb=128, num_files=16_384, num_processes=64, output_bytes=1 << 20
)
NEEDS: Final[frozenset[Guarantee]] = frozenset({*ISOLATED, "snapshots", "shell"})
SETUP_S: Final = 60.0
ENVIRONMENT: Final = {
    "PAGER": "cat", "GIT_PAGER": "cat", "EDITOR": "true", "GIT_EDITOR": "true", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider",
}  # fmt: skip
"""Nothing waits for keys that never come, and a test run starts in a fraction of the time that all plugins take."""
BaseFolder = Callable[[str], Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A place in which a task is laid out, and its snapshot; nobody works in it."""

    place: Workspace
    start: str
    files: dict[str, bytes]
    """What the setup left, beside the task's own files: name and content."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Share:
    prepared: "asyncio.Task[Prepared]"
    num_users: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Grounds:
    """Prepared places by task. Lives in one event loop."""

    backend: Backend
    base_folder: BaseFolder
    _shares: dict[str, _Share] = field(default_factory=dict[str, _Share])

    async def take(self, task: TerminalTask) -> Prepared:
        """The task's prepared place; to be given back with `give_back`, also where this raises."""
        key = _key(task)
        if key not in self._shares:
            self._shares[key] = _Share(prepared=asyncio.create_task(self._prepare(task)))
        share = self._shares[key]
        share.num_users += 1
        return await asyncio.shield(share.prepared)

    async def give_back(self, task: TerminalTask) -> None:
        """Stop using a prepared place; the last one ends it."""
        key = _key(task)
        share = self._shares.get(key)
        if share is None:
            return
        share.num_users -= 1
        if share.num_users <= 0:
            del self._shares[key]
            share.prepared.cancel()
            (outcome,) = await asyncio.gather(share.prepared, return_exceptions=True)
            if isinstance(outcome, Prepared):
                await outcome.place.stop()

    async def _prepare(self, task: TerminalTask) -> Prepared:
        layers = (self.base_folder(task.base),) if task.base else ()
        place = await self.backend.start(PlaceSpec(layers=layers, limits=LIMITS, needs=NEEDS, env=ENVIRONMENT))
        try:
            if not isinstance(place, Workspace):
                raise SandboxError(f"sandbox: backend {self.backend.isolation!r} has no places that can be forked")
            return await _laid_out(place, task)
        except BaseException:
            await place.stop()
            raise


async def _laid_out(place: Workspace, task: TerminalTask) -> Prepared:
    for name, text in task.files.items():
        await place.write(name, text.encode())
    script = [f"rm -rf -- {_quoted(name)}" for name in task.removed]
    script += [f"chmod +x -- {_quoted(name)}" for name in task.executable]
    laid = await place.snapshot()
    if script or task.setup:
        await run_script(place, "\n".join(["set -e", *script, *task.setup]), SETUP_S, "the setup of a task")
    start = await place.snapshot()
    changed = await place.diff(laid, start) if task.setup else {}
    files = {
        name: await place.read(name, LIMITS.output_bytes)
        for name, change in changed.items()
        if change != "deleted" and not name.startswith(".git/")
    }
    return Prepared(place=place, start=start, files=files)


async def run_script(place: Workspace, script: str, wall_s: float, what: str) -> None:
    """Run bash in a place; `SandboxError` with its last words if it fails."""
    outcome = await place.run(Command(argv=("bash", "-c", script), wall_s=wall_s))
    if outcome.ending != "exited" or outcome.exit_code != 0:
        said = (outcome.stdout + outcome.stderr)[-300:].decode(errors="replace").strip()
        raise SandboxError(f"sandbox: {what} failed ({outcome.ending}, exit code {outcome.exit_code}): {said}")


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "'\\''") + "'"


def _key(task: TerminalTask) -> str:
    return sha256_json(task.to_json())
