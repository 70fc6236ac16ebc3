"""A learner in workers makes the updates of one process, sends what it moved, and says which rank died."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from burnish.engine.replica import Replica, open_replica
from burnish.engine.replicas import replica_config
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.policy import Policy
from burnish.learner.ranked import RankConfig, RankedLearner
from burnish.models.lora import trainable
from burnish.objectives import dapo
from burnish.runtime.carriers import MemoryCarrier
from burnish.runtime.local import Local
from burnish.runtime.transport import Carrier, Checksums, fingerprint
from burnish.runtime.types import Runtime
from burnish.runtime.workers import WorkerLost
from tests.fakes import tiny_chat
from tests.learner.test_sharding import NUM_STEPS, batch, model, train
from tests.runtime.jobs import pid, work_for_ever
from tests.runtime.ray_cluster import ray_cluster
from tests.runtime.test_processes import comes_true, is_gone

LOSS = partial(dapo.loss, config=dapo.Config())


@contextmanager
def on_host() -> Iterator[tuple[Runtime, Carrier]]:
    yield Local(), MemoryCarrier()


@contextmanager
def on_ray() -> Iterator[tuple[Runtime, Carrier]]:
    pytest.importorskip("ray", reason="pip install 'burnish[ray]'")
    from burnish.runtime.ray import Cluster, ObjectStore

    with ray_cluster(num_cpus=4) as address:
        cluster = Cluster(address)
        yield cluster, ObjectStore()
        cluster.close()


def config(lora: bool) -> RankConfig:
    return RankConfig(
        build=partial(model, lora), optimiser=OptimiserConfig(max_grad_norm=0.5, weight_decay=0.1), max_pack_tokens=60
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("opened", [on_host, on_ray])
def test_two_ranks_equal_one_send_what_moved_to_a_replica_and_a_killed_one_is_named(
    opened: Callable[[], Iterator[tuple[Runtime, Carrier]]], tmp_path: Path
) -> None:
    alone = Policy(plain := model(True), trainable(plain))
    expected = train(alone, None, range(NUM_STEPS))
    with opened() as (runtime, carrier):
        learner = RankedLearner(runtime, config(True), 2)
        start = runtime.crew(
            "engine", lambda n: partial(open_replica, replica_config(plain, tiny_chat(), max_rows=2, options={})), 1
        )
        replica = start(0)
        first = learner.publish(carrier, bucket_bytes=1 << 16)
        assert replica.call(partial(Replica.load, update=first, carrier=carrier)) == first.fingerprint

        log = [learner.update([batch(step, 0), batch(step, 1)], LOSS, 1e-3) for step in range(NUM_STEPS)]
        for ours, theirs in zip(log, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5)
        learner.save(tmp_path)
        saved = load_file(tmp_path / "masters.safetensors")
        for name, master in alone.masters.items():
            torch.testing.assert_close(saved[name], master.detach(), atol=1e-5, rtol=0, msg=name)

        second = learner.publish(carrier)
        assert {piece.name for piece in second.pieces} == trainable(plain).keys()
        assert second.version == NUM_STEPS
        assert replica.call(partial(Replica.load, update=second, carrier=carrier)) == second.fingerprint
        assert replica.call(adapter_fingerprint) == fingerprint(Checksums().of(saved))
        learner.drop(first)

        pids = [learner._workers[rank].call(pid) for rank in (0, 1)]
        threading.Timer(0.5, os.kill, (pids[1], signal.SIGKILL)).start()
        began = time.monotonic()
        with pytest.raises(WorkerLost, match=r"'rank-1' \(process \d+\).* go on from the last checkpoint"):
            learner._call([work_for_ever, work_for_ever])
        assert time.monotonic() - began < 30
        assert comes_true(lambda: all(is_gone(one) for one in pids))
        replica.stop()

        fewer = RankedLearner(runtime, config(True), 1)
        fewer.load(tmp_path)
        again = fewer.update([batch(NUM_STEPS, None)], LOSS, 1e-3)
        assert again == pytest.approx(train(alone, None, range(NUM_STEPS, NUM_STEPS + 1))[0], abs=1e-5)
        fewer.stop()
        fewer.stop()


def adapter_fingerprint(replica: Replica) -> str:
    weights = dict(replica._model.named_parameters())
    return fingerprint(Checksums().of({name: weights[name] for name in weights if name.endswith((".up", ".down"))}))


class Late:
    """A worker, and a runtime whose first rank cannot start while its second is still on the way."""

    name, host, is_alive, num_stopped = "rank-1", "127.0.0.1", True, 0

    def crew(self, name: str, opening: object, num_workers: int, needs: object, *, is_packed: bool) -> object:
        return self.start

    def start(self, rank: int) -> "Late":
        if rank == 0:
            raise ValueError("no room")
        time.sleep(1.5)  # longer than the learner waits for the others' last words
        return self

    def stop(self, *, at_once: bool = False) -> None:
        self.num_stopped += 1


def test_a_rank_that_starts_while_another_fails_to_is_ended_too() -> None:
    late = Late()
    with pytest.raises(ValueError, match="no room"):
        RankedLearner(late, config(True), 2)  # pyright: ignore[reportArgumentType]
    assert late.num_stopped == 1
