"""A backend that opens an inner for each job and place, and knows nothing of either: for services and their clients.

A backend whose inners depend on a job's limits (a container, a process tree) says so itself.
"""

from collections.abc import Callable
from typing import Protocol

from burnish.core.errors import SandboxError
from burnish.core.types import Isolation
from burnish.sandbox.backends.inners import Inners
from burnish.sandbox.backends.stewarded import Inner, StewardPlace, refuse_unmet
from burnish.sandbox.place import Guarantee, PlaceSpec
from burnish.sandbox.types import Job, Outcome


class StartsItself(Inner, Protocol):
    """An inner that is made first and started then."""

    async def start(self) -> None:
        """Start it."""
        ...


class OneInnerEach:
    """Starts an inner for each job and place."""

    def __init__(
        self,
        name: Isolation,
        guarantees: frozenset[Guarantee],
        num_workers: int,
        make_inner: Callable[[Inners], StartsItself],
        instead_of_rootfs: str,
    ) -> None:
        """`instead_of_rootfs` says what to do for who wants one."""
        self.isolation: Isolation = name
        self.guarantees: frozenset[Guarantee] = guarantees
        self._inners = Inners(num_workers)
        self._make_inner = make_inner
        self._instead_of_rootfs = instead_of_rootfs

    async def run(self, job: Job) -> Outcome:
        """Run one job in an inner of its own."""
        return await self._inners.run(job, self._open)

    async def start(self, spec: PlaceSpec) -> StewardPlace:
        """Start a place."""
        refuse_unmet(self.isolation, self.guarantees, spec.needs)
        if spec.rootfs is not None:
            raise SandboxError(f"sandbox: backend {self.isolation!r} has no rootfs: {self._instead_of_rootfs}")
        return await StewardPlace(self._open, spec).open()

    async def stop(self) -> None:
        """Stop every inner that was started."""
        await self._inners.stop()

    async def _open(self) -> Inner:
        inner = self._make_inner(self._inners)
        return await self._inners.started(inner, inner.start())
