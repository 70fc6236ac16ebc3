"""Workers as actors of a Ray cluster, and weights in its object store. The only file that imports ray.

A worker is an actor that is never restarted by Ray: who owns it (a pool, a learner) knows what must be done with a new
one. Room for a crew is a placement group, `PACK` for ranks and `SPREAD` for others, so that it is there as a whole or
the run is refused at its start. A call that never returns is pending on each actor; it fails when the actor dies, which
is how an idle worker's death shows without asking over the network.

Decisions: without an address a cluster of this host is started, never one that happens to run is joined; it listens on
127.0.0.1 only and ends with this process. Ray's usage statistics are off unless the environment says otherwise.
Run with Ray 2.60. Not covered: processes that a killed actor has started (Ray leaves them; sandboxes end by
themselves), the folder of a local cluster whose driver was killed (logs, in the folder of temporary files), placement
by labels.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from burnish.core.errors import ConfigError
from burnish.runtime.process_main import WorkFault
from burnish.runtime.transport import Handle, TransportError
from burnish.runtime.types import CPU, Needs
from burnish.runtime.workers import NoAnswer, Opening, Worker, WorkerLost

try:
    import ray
    from ray.exceptions import (
        GetTimeoutError,
        NodeDiedError,
        OutOfMemoryError,
        RayActorError,
        RayError,
        RayTaskError,
        WorkerCrashedError,
    )
    from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
except ImportError as error:
    raise ConfigError(
        f"runtime.kind = 'ray' needs the package ray ({error}); pip install 'burnish[ray]', or say kind = 'local'"
    ) from error

S = TypeVar("S")
R = TypeVar("R")

_OPENED_WITHIN_S = 600.0
_LEAVES_WITHIN_S = 5.0
_DEATHS = (RayActorError, OutOfMemoryError, WorkerCrashedError, NodeDiedError)
"""Ray's words for a worker that is gone; a host that runs out of memory ends the worker, not the work's function."""


class _Actor:
    """What runs on the cluster."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._state: object = None

    def open(self, opening: Opening[object]) -> int:
        """Open the state; returns the process."""
        self._state = self._stack.enter_context(opening())
        return os.getpid()

    def do(self, work: Callable[[object], object]) -> object:
        """Apply a function to the state."""
        return work(self._state)

    def close(self) -> None:
        """Leave the state in good order."""
        self._stack.close()

    @ray.method(concurrency_group="life")
    def live(self) -> None:
        """Never return; in a thread of its own."""
        threading.Event().wait()


class RayWorker(Generic[S]):
    """See the module's docstring, and `burnish.runtime.workers.Worker`."""

    def __init__(self, name: str, opening: Opening[S], needs: Needs, place: PlacementGroup, bundle: int) -> None:
        """Start it and wait until its state is open; raises what opening raised."""
        make = ray.remote(concurrency_groups={"life": 1})  # pyright: ignore[reportCallIssue]  # missing in Ray's types
        actor_class = make(_Actor)
        self._name, self._pid = name, 0
        self._actor = actor_class.options(
            num_cpus=needs.num_cpus, num_gpus=needs.num_gpus, max_restarts=0, max_task_retries=0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                placement_group=place, placement_group_bundle_index=bundle
            ),
        ).remote()  # fmt: skip
        self._life = self._actor.live.remote()
        try:
            self._pid = cast(int, self._result(self._actor.open.remote(opening), "it opened", _OPENED_WITHIN_S))
        except BaseException:
            self.stop(at_once=True)
            raise

    @property
    def name(self) -> str:
        """See `Worker`."""
        return self._name

    @property
    def is_alive(self) -> bool:
        """See `Worker`."""
        return not ray.wait([self._life], timeout=0)[0]

    def call(self, work: Callable[[S], R], *, timeout_s: float | None = None) -> R:
        """See `Worker`."""
        return cast(R, self._result(self._actor.do.remote(work), "it worked", timeout_s))

    def stop(self, *, at_once: bool = False) -> None:
        """See `Worker`."""
        if not at_once and self.is_alive:
            ray.wait([self._actor.close.remote()], timeout=_LEAVES_WITHIN_S)
        ray.kill(self._actor, no_restart=True)

    def _result(self, reference: "ray.ObjectRef[object]", what: str, timeout_s: float | None) -> object:
        who = f"worker {self._name!r} (process {self._pid})"
        try:
            return ray.get(reference, timeout=timeout_s)
        except _DEATHS as error:
            raise WorkerLost(f"{who} died while {what}: {_first_line(error)}") from error
        except GetTimeoutError as error:
            self.stop(at_once=True)
            raise NoAnswer(f"{who} gave no answer within {timeout_s} s and was ended") from error
        except RayTaskError as error:
            if isinstance(error.cause, Exception):
                error.cause.add_note(f"in the worker:\n{error}")
                raise error.cause from None
            raise WorkFault(str(error)) from error
        except RayError as error:
            raise WorkFault(f"{who}: {_first_line(error)}") from error


class ObjectStore:
    """A carrier: buckets lie in the cluster's object store, and are read in place where they are on the same host."""

    def put(self, bucket: npt.NDArray[np.uint8]) -> Handle:
        """See `Carrier`."""
        return ray.put(bucket)

    def get(self, handle: Handle) -> npt.NDArray[np.uint8]:
        """See `Carrier`."""
        try:
            return ray.get(cast("ray.ObjectRef[npt.NDArray[np.uint8]]", handle), timeout=_OPENED_WITHIN_S)
        except RayError as error:
            raise TransportError(_first_line(error)) from error

    def drop(self, handle: Handle) -> None:
        """See `Carrier`; Ray frees it when no reference is left."""


class Cluster:
    """The runtime of a Ray cluster; see `burnish.runtime.types.Runtime`."""

    def __init__(
        self, address: str = "", *, num_cpus: int | None = None, object_store_mb: int | None = None,
        placed_within_s: float = 60.0,
    ) -> None:  # fmt: skip
        """Join the cluster at an address, or start one of this host."""
        self._placed_within_s = placed_within_s
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._places: list[PlacementGroup] = []
        self._folder = "" if address else tempfile.mkdtemp(prefix="burnish-ray-")
        try:
            if address:
                ray.init(address=address, log_to_driver=False)
            else:
                ray.init(
                    address="local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=False,
                    object_store_memory=object_store_mb and object_store_mb << 20,
                    _temp_dir=self._folder, _node_ip_address="127.0.0.1",
                )  # fmt: skip
        except Exception as error:
            self._remove_folder()
            raise ConfigError(
                f"runtime: no Ray cluster at {address or 'this host'!r}: {_first_line(error)}; start one by "
                "`ray start --head`, put runtime.address right, or leave it out"
            ) from error

    @property
    def host(self) -> str:
        """See `Runtime`."""
        return "127.0.0.1" if self._folder else ray.util.get_node_ip_address()

    def crew(
        self, name: str, opening: Callable[[int], Opening[S]], num_workers: int, needs: Needs = CPU, *,
        is_packed: bool = False,
    ) -> Callable[[int], Worker[S]]:  # fmt: skip
        """See `Runtime`."""
        bundle: Mapping[str, float] = {"CPU": needs.num_cpus} | ({"GPU": needs.num_gpus} if needs.num_gpus else {})
        place = placement_group([dict(bundle)] * num_workers, strategy="PACK" if is_packed else "SPREAD")
        if not place.wait(self._placed_within_s):
            remove_placement_group(place)
            raise ConfigError(
                f"the Ray cluster has no room for {num_workers} workers {name!r} with {bundle} each within "
                f"{self._placed_within_s:.0f} s; free are {ray.available_resources()}; ask for fewer or add hosts"
            )
        self._places.append(place)
        return partial(_started, name, opening, needs, place)

    def close(self) -> None:
        """See `Runtime`."""
        if ray.is_initialized():
            for place in self._places:
                remove_placement_group(place)
            ray.shutdown()
        self._places.clear()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)  # Ray's last processes may still write there


def _started(
    name: str, opening: Callable[[int], Opening[S]], needs: Needs, place: PlacementGroup, number: int
) -> Worker[S]:
    return RayWorker(f"{name}-{number}", opening(number), needs, place, number)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
