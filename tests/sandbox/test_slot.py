"""A slot between two jobs: nothing that happened before a job is held against it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from burnish.sandbox import Job, ResourceLimits, cgroups, missing
from burnish.sandbox.streams import Cancel
from burnish.sandbox.zygote import Zygote

LIMITS = ResourceLimits(wall_s=30.0, cpu_s=10.0, memory_mb=64, disk_mb=1, num_files=16, num_processes=4)
HOG = (
    "import sys; open('/proc/self/oom_score_adj', 'w').write('1000')\n"
    "sys.stdin.read(1); x = bytearray(b'x') * (400 << 20)"
)


@pytest.fixture
def zygote():
    if missing() or "memory" not in cgroups.usable(cgroups.trees()):
        pytest.skip("no isolation, or no control group with a memory limit, here")
    started, cancel = Zygote(()), Cancel()
    started.wait_until_ready(cancel)
    yield started
    started.close()
    cancel.close()


def test_a_job_is_not_blamed_for_a_memory_kill_before_it(zygote):
    job, cancel = Job(source="print('on')", limits=LIMITS), Cancel()
    assert zygote.run(job, cancel).exit_code == 0
    (slot,) = zygote._slots
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", HOG], stdin=subprocess.PIPE) as hog:
        slot._group.add(hog.pid)
        hog.communicate(b"x", timeout=60)
    assert hog.returncode == -9
    outcome = zygote.run(job, cancel)
    cancel.close()
    assert (outcome.ending, outcome.stdout) == ("exited", b"on\n")


def test_a_server_can_be_stopped_and_closed_by_many_threads_at_once():
    if missing():
        pytest.skip("no isolation here")
    started, cancel = Zygote(()), Cancel()
    started.wait_until_ready(cancel)
    cancel.close()
    assert started.run(Job(source="print(1)", limits=LIMITS), Cancel()).stdout == b"1\n"
    with ThreadPoolExecutor(8) as threads:
        ends = [threads.submit(started.close if i % 2 else lambda: started.stop(hang_up_s=0.0)) for i in range(8)]
    assert [end.exception() for end in ends] == [None] * 8 and not started.is_alive()
