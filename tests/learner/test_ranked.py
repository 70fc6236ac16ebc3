"""A learner in workers makes the updates of one process, which follows it, and says which rank died."""

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

from burnish.learner.batch import Batch
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.policy import Policy
from burnish.learner.ranked import RankConfig, RankedLearner
from burnish.learner.ranked_policy import RankedPolicy
from burnish.models.lora import trainable
from burnish.objectives import dapo
from burnish.runtime.carriers import MemoryCarrier
from burnish.runtime.local import Local
from burnish.runtime.transport import Carrier
from burnish.runtime.types import Runtime
from burnish.runtime.workers import WorkerLost
from tests.learner.test_sharding import NUM_STEPS, batch, model, train
from tests.runtime.jobs import pid, work_for_ever
from tests.runtime.ray_cluster import ray_cluster
from tests.runtime.test_processes import comes_true, is_gone

LOSS = partial(dapo.loss, config=dapo.Config())
OPTIMISER = OptimiserConfig(max_grad_norm=0.5, weight_decay=0.1)


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
    return RankConfig(build=partial(model, lora), max_pack_tokens=60)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("opened", [on_host, on_ray])
def test_two_ranks_equal_one_the_own_copy_follows_and_a_killed_one_is_named(
    opened: Callable[[], Iterator[tuple[Runtime, Carrier]]], tmp_path: Path
) -> None:
    alone = Policy(plain := model(True), trainable(plain))
    beginning = alone.frozen()
    expected = train(alone, None, range(NUM_STEPS))
    with opened() as (runtime, carrier):
        learner = RankedLearner(runtime, config(True), 2)
        own = Policy(copy := model(True), trainable(copy))
        ranked = RankedPolicy(own, learner, carrier)
        ranked.reset_optimiser(OPTIMISER)
        reference = ranked.frozen()
        log = [step_of(ranked, batch(step, None)) for step in range(NUM_STEPS)]
        for ours, theirs in zip(log, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5)
        ranked.save(tmp_path, with_optimiser=True)
        saved = load_file(tmp_path / "masters.safetensors")
        for name, master in alone.masters.items():
            torch.testing.assert_close(saved[name], master.detach(), atol=1e-5, rtol=0, msg=name)
            assert own.masters[name].equal(saved[name])
        assert ranked.version == NUM_STEPS

        rows = batch(0, None).rows
        for scorer, other in ((ranked, alone), (reference, beginning), (ranked, alone)):
            for one, two in zip(scorer.logprobs(rows, 0.7), other.logprobs(rows, 0.7), strict=True):
                torch.testing.assert_close(one, two, atol=1e-4, rtol=0)
        for one, two in zip(reference.top_tokens(rows, 3, 1.0), beginning.top_tokens(rows, 3, 1.0), strict=True):
            assert one.ids_N_K.equal(two.ids_N_K)

        pids = learner.each([pid, pid])
        threading.Timer(0.5, os.kill, (pids[1], signal.SIGKILL)).start()
        began = time.monotonic()
        with pytest.raises(WorkerLost, match=r"'rank-1' \(process \d+\).* go on from the last checkpoint"):
            learner.each([work_for_ever, work_for_ever])
        assert time.monotonic() - began < 30
        assert comes_true(lambda: all(is_gone(one) for one in pids))

        fewer = RankedLearner(runtime, config(True), 1)
        again = RankedPolicy(Policy(last := model(True), trainable(last)), fewer, carrier)
        again.reset_optimiser(OPTIMISER)
        again.load(tmp_path)
        assert again.version == NUM_STEPS
        ours, theirs = step_of(again, batch(NUM_STEPS, None)), train(alone, None, range(NUM_STEPS, NUM_STEPS + 1))[0]
        assert ours == pytest.approx(theirs, abs=1e-5)
        fewer.stop()
        fewer.stop()


def step_of(policy: RankedPolicy, given: Batch) -> dict[str, float]:
    return policy.forward_backward(given, LOSS) | {"grad_norm": policy.optim_step(1e-3)}


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
