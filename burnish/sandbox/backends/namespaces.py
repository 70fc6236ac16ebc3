"""The default: fork servers of our own, each job in namespaces of its own (docs/security.md).

Jobs go through `NamespaceBox`, places through `LocalPlaces`.
"""

from collections.abc import Mapping
from typing import Final

from burnish.core.config import Strict, validate
from burnish.core.errors import SandboxError
from burnish.core.types import Isolation, Json
from burnish.sandbox import host
from burnish.sandbox.backends.stewarded import refuse_unmet
from burnish.sandbox.local_place import GUARANTEES, LocalPlace, LocalPlaces
from burnish.sandbox.namespaces import NamespaceBox
from burnish.sandbox.place import PlaceSpec
from burnish.sandbox.streams import Cancel
from burnish.sandbox.types import Job, Outcome
from burnish.sandbox.zygote import Zygote

NAME: Final = "namespaces"


class Config(Strict):
    """`namespaces` has no options."""


def open_backend(options: Mapping[str, Json], num_workers: int) -> "NamespacesBackend":
    """Open the backend; `SandboxError` says what is missing."""
    validate(Config, options, f"options of backend {NAME!r}")
    lacks = host.lacks()
    if lacks:
        raise SandboxError(
            f"sandbox: this host cannot isolate; it lacks {'; '.join(lacks)}. "
            "Code of a model does not run here unless the recipe says isolation = 'none'"
        )
    return NamespacesBackend(num_workers)


def missing(options: Mapping[str, Json]) -> list[str]:
    """Say what this host lacks, each with the way to get it."""
    validate(Config, options, f"options of backend {NAME!r}")
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


class NamespacesBackend:
    """Jobs through fork servers, places through keepers."""

    isolation: Isolation = NAME
    guarantees = GUARANTEES

    def __init__(self, num_workers: int) -> None:
        self._box = NamespaceBox(num_workers)
        self._places = LocalPlaces()

    async def run(self, job: Job) -> Outcome:
        """Run one job; cancelling the wait kills it first."""
        return await self._box.run(job)

    async def start(self, spec: PlaceSpec) -> LocalPlace:
        """Start a place."""
        refuse_unmet(NAME, self.guarantees, spec.needs)
        return await self._places.start(spec)

    async def stop(self) -> None:
        """Kill everything that was started."""
        await self._places.stop()
        await self._box.stop()

    def server_pids(self) -> list[int]:
        """The processes of the fork servers; each holds its jobs' lives."""
        return self._box.server_pids()
