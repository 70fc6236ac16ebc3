"""A worker of this host answers, is named when it dies, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from burnish.runtime.process_main import WorkFault
from burnish.runtime.processes import ProcessWorker
from burnish.runtime.workers import WorkerLost
from tests.runtime import jobs


def is_gone(pid: int) -> bool:
    """Whether a process has ended (or is a zombie that its new parent has yet to wait for)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def descendants(process: int) -> list[int]:
    """The processes that came of one, itself left out; those that end meanwhile may be missing."""
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return children + [one for child in children for one in descendants(child)]


def comes_true(condition: Callable[[], bool], within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return held


def test_a_worker_keeps_its_state_from_job_to_job_and_leaves_it_in_good_order(tmp_path: Path) -> None:
    worker = ProcessWorker("desk-0", partial(jobs.desk, str(tmp_path / "note")))
    assert worker.call(partial(jobs.Desk.say, word="moin")) == "moin"
    assert worker.call(jobs.Desk.spoken) == "moin"
    assert worker.call(jobs.pid) == worker.pid != os.getpid()
    worker.stop()
    worker.stop()
    assert (tmp_path / "note").read_text() == "left"
    assert is_gone(worker.pid)


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (jobs.raise_plain, ValueError, "plain"),
        (jobs.raise_odd, WorkFault, "Odd: 1 2"),
        (jobs.give_unpicklable, (AttributeError, WorkFault), "pickle"),
    ],
)
def test_what_work_raises_comes_back_and_the_worker_lives_on(
    work: Callable[[object], object], error: type[Exception], message: str
) -> None:
    worker = ProcessWorker("desk-0", jobs.desk)
    with pytest.raises(error, match=message) as raised:
        worker.call(work)
    assert "in the worker" in str([str(raised.value), *getattr(raised.value, "__notes__", [])])
    assert worker.call(partial(jobs.Desk.square, number=3)) == 9
    worker.stop()


def test_a_state_that_cannot_be_opened_says_why_and_leaves_no_process() -> None:
    with pytest.raises(ValueError, match="no such desk"):
        ProcessWorker("desk-0", jobs.broken)


def test_a_worker_that_dies_is_named_with_its_signal_and_its_children_die_too() -> None:
    worker = ProcessWorker("desk-7", jobs.desk)
    child = worker.call(jobs.start_child)
    with pytest.raises(WorkerLost, match=r"'desk-7' \(process \d+\) was killed by SIGKILL while it worked"):
        worker.call(jobs.die)
    assert not worker.is_alive
    assert comes_true(lambda: is_gone(child))


def test_a_worker_without_an_answer_in_time_is_ended() -> None:
    worker = ProcessWorker("desk-0", jobs.desk)
    with pytest.raises(WorkerLost, match=r"gave no answer within 0.1 s"):
        worker.call(jobs.work_for_ever, timeout_s=0.1)
    assert is_gone(worker.pid)


def test_workers_die_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from burnish.runtime.processes import ProcessWorker; from tests.runtime import jobs; import threading\n"
        "w = [ProcessWorker(f'desk-{n}', jobs.desk) for n in (0, 1)]\n"
        "threading.Thread(target=lambda: w[1].call(jobs.work_for_ever), daemon=True).start()\n"
        "print(*(one.pid for one in w), flush=True)\n"
        "threading.Event().wait()"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert driver.stdout
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 2
    assert not any(is_gone(pid) for pid in pids)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert comes_true(lambda: all(is_gone(pid) for pid in pids))
