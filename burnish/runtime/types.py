"""What a runtime is: it starts workers, on this host (`runtime.local`) or on a Ray cluster (`runtime.ray`)."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from burnish.runtime.workers import Opening, Worker

S = TypeVar("S")


class Needs(NamedTuple):
    """What a worker takes of a host."""

    num_cpus: float = 1
    num_gpus: float = 0


CPU = Needs()


class Runtime(Protocol):
    """Starts workers."""

    @property
    def host(self) -> str:
        """This process's host, as its workers reach it."""
        ...

    def crew(
        self, name: str, opening: Callable[[int], Opening[S]], num_workers: int, needs: Needs = CPU, *,
        is_packed: bool = False,
    ) -> Callable[[int], Worker[S]]:  # fmt: skip
        """Set room for workers aside; returns what starts number i of them, `NAME-i`, also again after it died.

        `is_packed`: close together, as ranks want it; else apart, as those do that should not die together.
        """
        ...

    def close(self) -> None:
        """Give back what was set aside; the workers have been stopped before. Safe to call twice."""
        ...
