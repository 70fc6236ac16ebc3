"""Boxes live and die cleanly: many jobs at once, servers that die, cancelled waits, killed hosts."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import Job, Outcome, ResourceLimits, missing, open_box
from burnish.sandbox.namespaces import NamespaceBox
from burnish.sandbox.selftest import ATTEMPTS, prove

ROOMY = ResourceLimits(wall_s=30.0)
NAMED = """
import ctypes, os, time
ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)
"""
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"""
LATE = """
import os, select
from burnish.sandbox.inside import kernel
own_fd = os.pidfd_open(os.getpid())
if os.fork():
    os._exit(0)
select.select([own_fd], [], [])
print("late", flush=True)
kernel.die_with(own_fd)
print("alive", flush=True)
"""


def alive(name: bytes) -> list[str]:
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            found += [str(comm)] if comm.read_bytes().strip() == name else []
        except OSError:
            continue
    return found


def wait_until(condition, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.fixture(autouse=True)
def _isolating_host(box): ...


def test_a_server_that_cannot_start_leaves_no_descriptor(run_job):
    counts: list[int] = []
    for _ in range(2):
        with pytest.raises(SandboxError, match="no_such_module"):
            run_job("print(1)", preload=("no_such_module",))
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[1] == counts[0]


def test_a_daemon_is_gone_when_the_outcome_is_there(run):
    name = f"dm{os.getpid()}".encode()
    outcome = run(NAMED.format(name=name) + DAEMON + "print(1)")
    assert outcome.stdout == b"1\n" and alive(name) == []


def test_killing_everything_in_reach_kills_only_the_job(run):
    source = """
import os, time
if os.fork() == 0:
    time.sleep(60)
os.kill(-1, 9)
try:
    os.kill(1, 9)
except PermissionError:  # another user's, where there are users to give; else deaf to it
    pass
print(os.wait()[1])
"""
    assert run(source).stdout == b"9\n" and run("print(3)").stdout == b"3\n"


def test_sixteen_jobs_at_once_get_their_own_results(loop):
    async def gather() -> list[Outcome]:
        async with open_box(num_workers=16) as box:
            jobs = [Job(source=f"import time; time.sleep(.3); print({i})", limits=ROOMY) for i in range(16)]
            return await asyncio.gather(*map(box.run, jobs))

    outcomes = asyncio.run_coroutine_threadsafe(gather(), loop).result()
    assert [int(o.stdout) for o in outcomes] == list(range(16))


def test_no_more_jobs_run_at_once_than_workers(loop):
    async def spans() -> list[tuple[float, float]]:
        async with open_box(num_workers=2) as box:
            source = "import time; a = time.monotonic(); time.sleep(.1); print(a, time.monotonic())"
            outcomes = await asyncio.gather(*[box.run(Job(source=source, limits=ROOMY)) for _ in range(6)])
            return [tuple(map(float, o.stdout.split())) for o in outcomes]

    times = asyncio.run_coroutine_threadsafe(spans(), loop).result()
    assert max(sum(a <= start < b for a, b in times) for start, _ in times) <= 2


def test_a_server_that_dies_is_replaced_and_its_job_runs_again():
    async def kill_once() -> Outcome:
        box = NamespaceBox(1)
        try:
            await box.run(Job(source="", limits=ROOMY))
            running = asyncio.create_task(box.run(Job(source="import time; time.sleep(1); print(1)", limits=ROOMY)))
            await asyncio.sleep(0.4)
            (server,) = box.server_pids()
            os.kill(server, signal.SIGKILL)
            return await running
        finally:
            await box.stop()

    assert asyncio.run(kill_once()).stdout == b"1\n"


def test_a_server_that_dies_again_and_again_is_an_error():
    async def kill_always() -> None:
        box = NamespaceBox(1)
        try:
            running = asyncio.create_task(box.run(Job(source="import time; time.sleep(20)", limits=ROOMY)))
            while not running.done():
                for server in box.server_pids():
                    os.kill(server, signal.SIGKILL)
                await asyncio.sleep(0.05)
            await running
        finally:
            await box.stop()

    with pytest.raises(SandboxError, match="fork server"):
        asyncio.run(kill_always())


def test_a_process_whose_parent_died_before_it_could_ask_to_die_with_it_ends_by_itself():
    """A fork server once ran on so: what had killed it got the result of a job."""
    forked = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert (forked.stdout, forked.stderr) == ("late\n", "")


def test_a_cancelled_wait_kills_the_job_first():
    name = f"cw{os.getpid()}".encode()

    async def cancel() -> tuple[list[str], float]:
        async with open_box(num_workers=1) as box:
            job = Job(source=NAMED.format(name=name) + "time.sleep(60)", limits=ROOMY)
            running = asyncio.create_task(box.run(job))
            assert await asyncio.to_thread(wait_until, lambda: alive(name))
            started = time.monotonic()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return alive(name), time.monotonic() - started

    left, took_s = asyncio.run(cancel())
    assert left == [] and took_s < 5


def test_a_wait_cancelled_while_the_server_starts_ends_at_once():
    async def cancel() -> float:
        box = NamespaceBox(1)
        running = asyncio.create_task(box.run(Job(source="", preload=("reasoning_gym",))))
        await asyncio.to_thread(wait_until, box.server_pids)
        started = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await box.stop()
        return time.monotonic() - started

    assert asyncio.run(cancel()) < 2


def test_stop_leaves_no_process_mount_file_or_descriptor(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def state() -> tuple[str, list[str], int]:
        mounts = Path("/proc/self/mountinfo").read_text()
        return mounts, os.listdir(tmp_path), len(os.listdir("/proc/self/fd"))

    async def use() -> list[int]:
        async with open_box(num_workers=2) as box:
            await asyncio.gather(*[box.run(Job(source="print(1)", limits=ROOMY)) for _ in range(8)])
            return box.server_pids()

    before = state()
    pids = asyncio.run(use())
    assert state() == before and len(pids) == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_stop_is_safe_twice_and_a_stopped_box_refuses():
    async def stop_twice() -> None:
        async with open_box() as box:
            await box.stop()
            await box.stop()
            await box.run(Job(source=""))

    with pytest.raises(SandboxError, match="stopped"):
        asyncio.run(stop_twice())


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_the_host(with_signal):
    name = f"ho{os.getpid()}".encode()
    script = f"""
import asyncio
from burnish.sandbox import Job, ResourceLimits, open_box
async def main():
    async with open_box() as box:
        await box.run(Job(source={NAMED.format(name=name) + "time.sleep(60)"!r}, limits=ResourceLimits(wall_s=60.0)))
asyncio.run(main())
"""
    host = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    assert wait_until(lambda: alive(name), 30)
    host.send_signal(with_signal)
    host.wait(10)
    assert wait_until(lambda: not alive(name), 20)


def test_this_host_lacks_nothing():
    assert missing() == []


class CannedBox:
    isolation = "namespaces"

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def run(self, job: Job) -> Outcome:
        return Outcome(ending="exited", exit_code=0, stdout=b"", stderr=b"", answer=self.answer, wall_s=0.0)

    async def stop(self) -> None: ...


@pytest.mark.parametrize("number", range(len(ATTEMPTS)))
def test_a_box_that_lets_one_attempt_through_is_refused(number):
    worked = ["true" if i == number else "false" for i in range(len(ATTEMPTS))]
    with pytest.raises(SandboxError, match=ATTEMPTS[number]):
        asyncio.run(prove(CannedBox(f"[{','.join(worked)}]".encode())))
