"""A learner in several workers: each is a rank that holds its share of the weights, gradients and moments.

The ranks make each update together (`sharding`), so they are called together. Where one dies or raises, the others
would wait for it for ever: all are ended at once, and the error names the first. What was not saved is lost; go on
from the last checkpoint, with any number of ranks.

Ranks meet at a store of torch in the process that starts them. What trains is gathered for an update and goes out from
rank 0. Gloo on processors, NCCL on GPUs (not run here).

Covered: losses that pickle; one that keeps notes (`Noting`) has them back. Not covered: models that do not fit one
host before they are shared out.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import distributed
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]  # its documented name
from torch.distributed.device_mesh import init_device_mesh
from transformers import PreTrainedModel

from burnish.learner.batch import Batch
from burnish.learner.policy import LossFunction, Noting, Policy, Scorer
from burnish.learner.ranks import whole
from burnish.learner.sharding import sharded_policy
from burnish.runtime.transport import BUCKET_BYTES, Carrier, Checksums, Update, drop, send
from burnish.runtime.types import Needs, Runtime
from burnish.runtime.workers import Worker, WorkerLost

R = TypeVar("R")

_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankConfig:
    """What each rank opens; `build` makes the float32 model with what trains marked, alike in all of them."""

    build: Callable[[], PreTrainedModel]
    compute_dtype: torch.dtype = torch.float32
    max_pack_tokens: int = 2048
    num_threads: int = 1


class Computed(NamedTuple):
    """What a rank says of a batch: metrics, alike in all ranks, and what its copy of the loss has noted."""

    metrics: dict[str, float]
    notes: Noting | None


class Rank:
    """What lives in a worker; joins the others before anything else."""

    def __init__(self, config: RankConfig) -> None:
        self._config = config
        self._policy: Policy | None = None
        self._frozen: list[Scorer] = []
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
        config = self._config
        self._policy = sharded_policy(
            config.build(), mesh, compute_dtype=config.compute_dtype, max_pack_tokens=config.max_pack_tokens
        )

    def do(self, work: Callable[[Policy], R]) -> R:
        """Apply a function to the policy, as all ranks do."""
        return work(self.policy)

    def forward_backward(self, batch: Batch, loss: LossFunction) -> Computed:
        """See `Policy.forward_backward`; `batch` is this rank's share."""
        notes = _notes_of(loss)
        if notes is not None:
            notes.clear()  # what the original has noted so far came along
        return Computed(self.policy.forward_backward(batch, loss), notes)

    def freeze(self) -> int:
        """Keep the weights of this moment; returns the number to ask for them by."""
        self._frozen.append(self.policy.frozen())
        return len(self._frozen) - 1

    def score(self, work: Callable[[Scorer], R], frozen: int | None) -> R:
        """Apply a function to the policy, or to it as it was kept under a number."""
        return work(self.policy if frozen is None else self._frozen[frozen])

    def publish(self, carrier: Carrier, bucket_bytes: int) -> Update | None:
        """Gather what trains; rank 0 puts what has moved into buckets."""
        gathered = {name: whole(master.detach()) for name, master in self.policy.masters.items()}
        if distributed.get_rank():
            return None
        known, self._sums = self._sums, Checksums().of(gathered)
        self._carrier = self._carrier or carrier  # the one that put a bucket must drop it
        version = self.policy.version
        return send(gathered, self._sums, self._carrier, version=version, known=known, bucket_bytes=bucket_bytes)

    def drop(self, update: Update) -> None:
        """Forget an update's buckets."""
        if self._carrier:
            drop(update, self._carrier)


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
        self.each([partial(Rank.join, rank=rank, **meeting) for rank in range(num_ranks)])

    @property
    def num_ranks(self) -> int:
        """How many there are."""
        return len(self._workers)

    def each(self, works: Sequence[Callable[[Rank], R]]) -> list[R]:
        """Have each rank do its own, all at the same time."""
        assert len(works) == len(self._workers), "one for each rank"
        return self._together([partial(self._workers[rank].call, work) for rank, work in enumerate(works)])

    def all(self, work: Callable[[Rank], R]) -> R:
        """Have all ranks do the same; returns what rank 0 says."""
        return self.each([work] * len(self._workers))[0]

    def publish(self, carrier: Carrier, bucket_bytes: int = BUCKET_BYTES) -> Update:
        """What has changed since the last call; `drop` it once everybody has it."""
        update = self.all(partial(Rank.publish, carrier=carrier, bucket_bytes=bucket_bytes))
        assert update, "rank 0 gives it"
        return update

    def drop(self, update: Update) -> None:
        """Forget an update's buckets."""
        self._workers[0].call(partial(Rank.drop, update=update))

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
            f"{lost[0]}; the learner's other ranks were ended; go on from the last checkpoint by --resume"
        ) from lost[0]


def _notes_of(loss: LossFunction) -> Noting | None:
    return loss if isinstance(loss, Noting) else None
