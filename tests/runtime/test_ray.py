"""A local Ray cluster of several processes: the same pool, the same carrier, the same faults as on one host."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.ray_cluster import ray_cluster

pytest.importorskip("ray", reason="pip install 'burnish[ray]'")

from burnish.core.errors import ConfigError
from burnish.runtime.ray import Cluster, ObjectStore
from burnish.runtime.types import Needs
from burnish.runtime.workers import Pool, WorkerLost
from tests.runtime import jobs
from tests.runtime.test_processes import comes_true, is_gone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ray_cluster(num_cpus=8) as address:
        opened = Cluster(address, placed_within_s=20.0)
        yield opened
        opened.close()
        opened.close()


def test_a_pool_of_actors_gives_each_result_and_replaces_those_that_are_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    told: list[str] = []
    start = cluster.crew("desk", lambda number: jobs.desk, 2)
    with Pool(start, 2, tell=told.append) as pool:
        results = [pool.submit(partial(jobs.Desk.square, number=number)) for number in range(10)]
        assert [result.result() for result in results] == [number**2 for number in range(10)]
        assert pool.submit(partial(jobs.die_once, mark=str(tmp_path / "mark"))).result() == "done"
        idle = pool.each(jobs.pid)
        os.kill(idle[0], signal.SIGKILL)
        assert comes_true(lambda: pool.num_lost == 2)
        assert idle[0] not in (pids := pool.each(jobs.pid))
    assert len(told) == 2
    assert "worker 'desk-" in told[0]
    assert comes_true(lambda: all(is_gone(pid) for pid in pids))


def test_an_actor_tells_what_work_raised_and_is_ended_when_it_does_not_answer(cluster: Cluster) -> None:
    worker = cluster.crew("desk", lambda number: jobs.desk, 1)(0)
    with pytest.raises(ValueError, match="plain"):
        worker.call(jobs.raise_plain)
    assert worker.call(partial(jobs.Desk.square, number=3)) == 9
    with pytest.raises(WorkerLost, match=r"'desk-0' \(process \d+\) gave no answer within 0.2 s"):
        worker.call(jobs.work_for_ever, timeout_s=0.2)
    assert comes_true(lambda: not worker.is_alive)


def test_a_state_that_cannot_be_opened_says_why(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="no such desk"):
        cluster.crew("desk", lambda number: jobs.broken, 1)(0)


def test_more_workers_than_the_cluster_has_room_for_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="no room for 3 workers 'big' with"):
        cluster.crew("big", lambda number: jobs.desk, 3, Needs(num_cpus=100))


def read_sum(desk: object, handle: object, carrier: ObjectStore) -> int:
    return int(carrier.get(handle).sum())


def test_a_bucket_in_the_object_store_is_read_by_an_actor(cluster: Cluster) -> None:
    carrier = ObjectStore()
    handle = carrier.put(np.full(1000, 3, np.uint8))
    worker = cluster.crew("desk", lambda number: jobs.desk, 1)(0)
    assert worker.call(partial(read_sum, handle=handle, carrier=carrier)) == 3000
    worker.stop()
