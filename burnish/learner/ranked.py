"""A learner in several workers: each is a rank that holds its share of the weights, gradients and moments.

The ranks make each update together (`sharding`), so they are called together. Where one dies or raises, the others
would wait for it for ever: all are ended at once, and the error names the first. What was not saved is lost; go on
from the last checkpoint with a new learner, of any number of ranks.

Ranks meet at a store of torch in the process that starts them. Weights are gathered for an update and go out from
rank 0; frozen ones are gathered once. Gloo on processors, NCCL on GPUs (not run here).

Not covered: losses that keep notes to themselves (each rank has its own copy), models that do not fit one host before
they are shared out.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]  # its documented name
from torch.distributed.device_mesh import init_device_mesh
from transformers import PreTrainedModel

from burnish.learner.batch import Batch
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction, Policy
from burnish.learner.ranks import whole
from burnish.learner.sharding import sharded_policy
from burnish.models.parameters import named_tensors
from burnish.runtime.transport import BUCKET_BYTES, Carrier, Checksums, Update, drop, send
from burnish.runtime.types import Needs, Runtime
from burnish.runtime.workers import Worker, WorkerLost

R = TypeVar("R")

_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankConfig:
    """What each rank opens; `build` makes the float32 model with what trains marked, alike in all of them."""

    build: Callable[[], PreTrainedModel]
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    max_pack_tokens: int = 2048
    num_threads: int = 1


class Rank:
    """What lives in a worker; joins the others before anything else."""

    def __init__(self, config: RankConfig) -> None:
        self._config = config
        self._policy: Policy | None = None
        self._sums: dict[str, str] = {}
        self._carrier: Carrier | None = None

    @property
    def policy(self) -> Policy:
        """The policy of which this rank holds a share."""
        assert self._policy, "join first"
        return self._policy

    def join(self, rank: int, num_ranks: int, host: str, port: int) -> None:
        """Meet the other ranks and share the model out."""
        on_gpu = torch.cuda.is_available()
        store = TCPStore(host, port, is_master=False)
        distributed.init_process_group("nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=num_ranks)
        mesh = init_device_mesh("cuda" if on_gpu else "cpu", (num_ranks,))
        self._policy = sharded_policy(self._config.build(), mesh, max_pack_tokens=self._config.max_pack_tokens)
        self._policy.reset_optimiser(self._config.optimiser)

    def update(self, batch: Batch, loss: LossFunction, learning_rate: float) -> dict[str, float]:
        """Make one update."""
        metrics = self.policy.forward_backward(batch, loss)
        return metrics | {"grad_norm": self.policy.optim_step(learning_rate)}

    def logprobs(self, rows: Sequence[Row], temperature: float) -> list[Tensor]:
        """See `Policy.logprobs`."""
        return self.policy.logprobs(rows, temperature)

    def publish(self, carrier: Carrier, bucket_bytes: int) -> Update | None:
        """Gather what may have moved; rank 0 puts what has into buckets."""
        is_first = not self._sums
        gathered = {
            name: whole(tensor.detach())
            for name, tensor in named_tensors(self.policy.model).items()
            if is_first or tensor.requires_grad
        }
        known, self._sums = self._sums, self._sums | Checksums().of(gathered)
        if distributed.get_rank():
            return None
        self._carrier = self._carrier or carrier  # the one that put a bucket must drop it
        version = self.policy.version
        return send(gathered, self._sums, self._carrier, version=version, known=known, bucket_bytes=bucket_bytes)

    def drop(self, update: Update) -> None:
        """Forget an update's buckets."""
        if self._carrier:
            drop(update, self._carrier)

    def save(self, folder: Path) -> None:
        """See `Policy.save`; the folder must be one that all ranks reach."""
        self.policy.save(folder, with_optimiser=True)

    def load(self, folder: Path) -> None:
        """See `Policy.load`."""
        self.policy.load(folder)


@contextmanager
def open_rank(config: RankConfig) -> Iterator[Rank]:
    """The state of a worker that is a rank."""
    torch.set_num_threads(config.num_threads)
    try:
        yield Rank(config)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


class RankedLearner:
    """See the module's docstring."""

    def __init__(self, runtime: Runtime, config: RankConfig, num_ranks: int, needs: Needs | None = None) -> None:
        """Start the ranks and wait until they have met."""
        self._store = TCPStore(runtime.host, 0, is_master=True, wait_for_workers=False)
        needs = needs or Needs(num_cpus=config.num_threads, num_gpus=int(torch.cuda.is_available()))
        start = runtime.crew("rank", lambda rank: partial(open_rank, config), num_ranks, needs, is_packed=True)
        # Its threads live as long as the ranks do, which is what a worker asks of the thread that starts it.
        self._threads = ThreadPoolExecutor(num_ranks, thread_name_prefix="rank")
        self._workers: dict[int, Worker[Rank]] = {}
        self._together([partial(self._seat, start, rank) for rank in range(num_ranks)])
        meeting = {"num_ranks": num_ranks, "host": runtime.host, "port": self._store.port}
        self._call([partial(Rank.join, rank=rank, **meeting) for rank in range(num_ranks)])

    def update(self, batches: Sequence[Batch], loss: LossFunction, learning_rate: float) -> dict[str, float]:
        """Make one update of each rank's batch; returns the metrics, which are the same in all."""
        return self._call([partial(Rank.update, batch=b, loss=loss, learning_rate=learning_rate) for b in batches])[0]

    def logprobs(self, rows: Sequence[Sequence[Row]], temperature: float) -> list[list[Tensor]]:
        """Score each rank's rows."""
        return self._call([partial(Rank.logprobs, rows=some, temperature=temperature) for some in rows])

    def publish(self, carrier: Carrier, bucket_bytes: int = BUCKET_BYTES) -> Update:
        """What has changed since the last call; `drop` it once everybody has it."""
        update = self._call([partial(Rank.publish, carrier=carrier, bucket_bytes=bucket_bytes)] * len(self._workers))[0]
        assert update, "rank 0 gives it"
        return update

    def drop(self, update: Update) -> None:
        """Forget an update's buckets."""
        self._workers[0].call(partial(Rank.drop, update=update))

    def save(self, folder: Path) -> None:
        """Write a whole checkpoint into an existing folder."""
        self._call([partial(Rank.save, folder=folder)] * len(self._workers))

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        self._call([partial(Rank.load, folder=folder)] * len(self._workers))

    def stop(self, *, at_once: bool = False) -> None:
        """End all ranks; safe to call twice."""
        for worker in list(self._workers.values()):
            worker.stop(at_once=at_once)
        self._threads.shutdown()
        for worker in self._workers.values():  # one may have started meanwhile
            worker.stop(at_once=at_once)
        self._workers.clear()

    def _seat(self, start: Callable[[int], Worker[Rank]], rank: int) -> None:
        self._workers[rank] = start(rank)

    def _call(self, works: Sequence[Callable[[Rank], R]]) -> list[R]:
        assert len(works) == len(self._workers), "one for each rank"
        return self._together([partial(self._workers[rank].call, work) for rank, work in enumerate(works)])

    def _together(self, works: Sequence[Callable[[], R]]) -> list[R]:
        """Do all at the same time; where one fails, end all ranks and raise what the first cause is."""
        futures = [self._threads.submit(work) for work in works]
        wait(futures, return_when=FIRST_EXCEPTION)
        if not any(future.done() and future.exception() for future in futures):
            return [future.result() for future in futures]
        wait(futures, timeout=_LAST_WORDS_S)  # a rank may hear of another's death before we do
        errors = [error for future in futures if future.done() and (error := future.exception())]
        self.stop(at_once=True)
        lost = [error for error in errors if isinstance(error, WorkerLost)]
        if not lost:
            raise errors[0]
        raise WorkerLost(
            f"{lost[0]}; the learner's other ranks were ended, go on from the last checkpoint with a new learner"
        ) from lost[0]
