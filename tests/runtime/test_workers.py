"""A pool gives each job's result once, whichever worker dies, and holds back whoever submits too much."""

import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path

import pytest

from burnish.runtime.processes import ProcessWorker
from burnish.runtime.workers import NoAnswer, Pool, WorkerLost
from tests.runtime import jobs
from tests.runtime.test_processes import comes_true, is_gone


def start(number: int) -> ProcessWorker[jobs.Desk]:
    return ProcessWorker(f"desk-{number}", jobs.desk)


def test_each_job_has_its_own_result() -> None:
    with Pool(start, 2) as pool:
        results = [pool.submit(partial(jobs.Desk.square, number=number)) for number in range(20)]
        assert [result.result() for result in results] == [number**2 for number in range(20)]


def test_a_job_whose_worker_dies_is_done_by_another_and_the_loss_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    with Pool(start, 1, tell=told.append) as pool:
        assert pool.submit(partial(jobs.die_once, mark=str(tmp_path / "mark"))).result() == "done"
        assert pool.num_lost == 1
    assert len(told) == 1
    assert "'desk-0'" in told[0]
    assert "SIGKILL" in told[0]


def test_a_job_that_kills_every_worker_is_given_up_and_the_pool_goes_on() -> None:
    with Pool(start, 1, most_losses=2) as pool:
        with pytest.raises(WorkerLost, match="has lost 2 workers, so it is not tried again"):
            pool.submit(jobs.die).result()
        assert pool.submit(partial(jobs.Desk.square, number=4)).result() == 16


def test_an_idle_worker_that_is_killed_is_replaced_and_prepared_again() -> None:
    with Pool(start, 1, prepare=lambda worker: worker.call(partial(jobs.Desk.say, word="ready"))) as pool:
        (pid,) = pool.each(jobs.pid)
        os.kill(pid, signal.SIGKILL)
        assert comes_true(lambda: pool.num_lost == 1)
        assert pool.each(jobs.Desk.spoken) == ["ready"]


def test_each_reaches_every_worker_once() -> None:
    with Pool(start, 2) as pool:
        assert len(set(pool.each(jobs.pid))) == 2


def test_submit_waits_while_too_many_wait() -> None:
    with Pool(start, 1, most_waiting=1) as pool:
        futures: list[Future[int]] = []

        def submit_three() -> None:
            futures.extend([pool.submit(partial(jobs.Desk.square, number=n, sleep_s=0.3)) for n in range(3)])

        thread = threading.Thread(target=submit_three)
        began = time.monotonic()
        thread.start()
        thread.join()
        assert time.monotonic() - began > 0.25
        assert [future.result() for future in futures] == [0, 1, 4]


def test_a_job_that_was_given_up_in_time_is_never_begun(tmp_path: Path) -> None:
    with Pool(start, 1) as pool:
        first = pool.submit(partial(jobs.wait_for, mark=str(tmp_path / "mark")))
        second = pool.submit(partial(jobs.Desk.square, number=2))
        assert second.cancel()
        (tmp_path / "mark").touch()
        first.result()
        assert pool.submit(lambda_free_count).result() == 0


def lambda_free_count(desk: jobs.Desk) -> int:
    return desk.count


def test_stopping_ends_what_runs_and_what_waits() -> None:
    pool = Pool(start, 1)
    (pid,) = pool.each(jobs.pid)
    running = pool.submit(jobs.work_for_ever)
    waiting = pool.submit(jobs.pid)
    assert comes_true(running.running)
    pool.stop()
    pool.stop()
    for future in (running, waiting):
        with pytest.raises(CancelledError):
            future.result(timeout=0)
    with pytest.raises(CancelledError):
        pool.submit(jobs.pid)
    assert is_gone(pid)


def test_a_pool_whose_workers_cannot_open_says_why() -> None:
    with pytest.raises(ValueError, match="no such desk"):
        Pool(lambda number: ProcessWorker(f"desk-{number}", jobs.broken), 2)


def test_a_job_that_is_not_ended_in_its_time_costs_one_worker_and_is_not_begun_again() -> None:
    with Pool(start, 1) as pool:
        with pytest.raises(NoAnswer, match=r"'desk-0' gave no answer within 0.2 s"):
            pool.submit(jobs.work_for_ever, timeout_s=0.2).result()
        assert pool.submit(partial(jobs.Desk.square, number=3)).result() == 9
        assert pool.num_lost == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sixty_random_kills_lose_no_job_and_leave_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    numbers = random.Random(11)
    given: Counter[int] = Counter()
    killed: set[int] = set()
    with Pool(start, 3, most_waiting=16, most_losses=20) as pool:

        def kill_at_random() -> None:
            while len(killed) < 60:
                time.sleep(numbers.uniform(0.0, 0.3))
                seat = pool._seats[numbers.randrange(3)]
                if isinstance(seat.worker, ProcessWorker) and not is_gone(pid := seat.worker.pid):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)

        killer = threading.Thread(target=kill_at_random)
        killer.start()
        futures: list[Future[int]] = []
        while killer.is_alive():
            number = len(futures)
            future = pool.submit(partial(jobs.Desk.square, number=number, sleep_s=0.01))
            future.add_done_callback(lambda done, number=number: given.update([number]))
            futures.append(future)
        assert [future.result() for future in futures] == [number**2 for number in range(len(futures))]
        last = pool.each(jobs.pid)
        assert pool.num_lost == len(killed) == 60
    assert given == Counter(range(len(futures)))
    assert all(is_gone(pid) for pid in killed | set(last))
    assert not list(tmp_path.iterdir())
