"""What a job brings about is its own failure: it is judged, and never looks like a fault of the sandbox."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from burnish.sandbox import Job, Outcome, ResourceLimits, host, missing
from burnish.sandbox.namespaces import NamespaceBox
from burnish.sandbox.slot import Slot, ZygoteDied, order_of
from burnish.sandbox.streams import Cancel, collect

ROOMY = ResourceLimits(wall_s=60.0)
OVERWRITE = """
import ctypes
for line in open("/proc/self/maps"):
    if line.split()[1] == "rw-s":
        first, last = (int(place, 16) for place in line.split()[0].split("-"))
        ctypes.memset(first, {value}, last - first)
raise SystemExit(7)
"""


@pytest.mark.parametrize(("value", "ending"), [(0, "exited"), (1, "over_memory"), (255, "over_memory")])
def test_a_job_cannot_unsay_that_it_began(run, value, ending):
    assert run(OVERWRITE.format(value=value)).ending == ending


HIDE = """
import array, socket
ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
held = array.array("i", [*(end.fileno() for end in ends), 1, 2, 3])
for end in ends:
    end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, held)])
"""


def test_a_writing_end_hidden_in_a_circle_of_sockets_is_no_fault_of_the_sandbox(run):
    assert run(HIDE).ending == "exited"


FILES = {
    "more than its disk": {"a": bytes(3 << 20)},
    "more than it may have": {f"{n}": b"" for n in range(80)},
    "a file that is a folder": {"a": b"", "a/b": b""},
    "a name that is too long": {"a" * 300: b""},
    "a folder's name": {"a/": b""},
}


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_files_that_cannot_all_be_are_the_jobs_failure(run, files):
    outcome = run("print(1)", files=files)
    assert (outcome.ending, outcome.exit_code) == ("exited", 1)
    assert outcome.stderr.startswith(b"the files of the job: ")


TAKE_BACK = """
import os
back = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
while True:
    os.write(1, b"x")
    try:
        os.read(back, 1)
    except BlockingIOError:
        pass
"""


def test_a_pipe_that_is_always_busy_moves_no_deadline():
    pipes = [os.pipe() for _ in range(3)]
    death, dead = socket.socketpair()
    cancel = Cancel()
    player = subprocess.Popen([sys.executable, "-I", "-S", "-c", TAKE_BACK], stdout=pipes[0][1])
    release = threading.Timer(6.0, player.kill)  # so that a failure is no hang
    release.start()
    for _, far in pipes:
        os.close(far)

    def kill() -> None:
        player.kill()
        dead.close()

    ends = dict(zip(("stdout", "stderr", "answer"), (near for near, _ in pipes), strict=True))
    started = time.monotonic()
    with death, player:
        collected = collect(ends, death.fileno(), cancel, kill, 0.5, 1 << 30)
    took_s = time.monotonic() - started
    release.cancel()
    cancel.close()
    for near, _ in pipes:
        os.close(near)
    assert collected.stopped == "timed_out" and took_s < 4


def test_no_read_of_an_output_blocks():
    """A job may take back what it wrote between our look at its pipe and our read; `take_back` of the attacks tries."""
    pipes = [os.pipe() for _ in range(3)]
    death, dead = socket.socketpair()
    cancel = Cancel()
    blocking: list[bool] = []

    def kill() -> None:
        blocking.extend(os.get_blocking(near) for near, _ in pipes)
        for _, far in pipes:
            os.close(far)
        dead.close()

    ends = dict(zip(("stdout", "stderr", "answer"), (near for near, _ in pipes), strict=True))
    with death:
        collected = collect(ends, death.fileno(), cancel, kill, 0.05, 1 << 10)
    cancel.close()
    for near, _ in pipes:
        os.close(near)
    assert collected.stopped == "timed_out" and collected.is_gone and blocking == [False] * 3


def with_slots_killed(num_times: int) -> Outcome:
    """Run a job whose slot, and nothing else, is killed under it."""

    async def run() -> Outcome:
        box = NamespaceBox(1)
        try:
            await box.run(Job(source="", limits=ROOMY))
            source = "import os, time; os.write(1, b'began'); time.sleep(2)"
            running = asyncio.create_task(box.run(Job(source=source, limits=ROOMY)))
            (zygote,) = box._zygotes.values()
            for _ in range(num_times):
                while not (busy := [slot for slot in zygote._slots if slot not in zygote._idle]):
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.5)
                signal.pidfd_send_signal(busy[0]._pidfd, signal.SIGKILL)
                while busy[0] in zygote._slots:
                    await asyncio.sleep(0.02)
            outcome = await running
            assert (await box.run(Job(source="print(1)", limits=ROOMY))).stdout == b"1\n"
            return outcome
        finally:
            await box.stop()

    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    return asyncio.run(run())


def test_a_job_whose_slot_dies_runs_once_more():
    outcome = with_slots_killed(1)
    assert (outcome.ending, outcome.stdout) == ("exited", b"began")


def test_a_job_under_which_each_slot_dies_was_killed_and_is_no_error():
    assert with_slots_killed(2).ending == "killed"


def test_a_slot_that_hands_out_no_handle_is_closed_and_meets_no_other_job():
    control, far_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    slot, job, cancel = Slot(control, -1, None), Job(source=""), Cancel()
    slot.prepare(order_of(job))
    _, (link,), _, _ = socket.recv_fds(far_control, 1 << 10, 1)
    os.close(link)
    with pytest.raises(ZygoteDied):
        slot.run(job, order_of(job), cancel, str, lambda: True)
    cancel.close()
    assert not slot.is_alive() and far_control.recv(1) == b""
    far_control.close()


UNKNOWN_CHILD = """
import os, signal, time
from burnish.sandbox.inside import kernel, mounts, pids
first = kernel.clone(kernel.CLONE_NEWPID, signal.SIGCHLD)
if first.pid == 0:
    signal.pause()
mounts.enter(first.pidfd, kernel.CLONE_NEWPID)
if os.fork() == 0:
    os._exit(0)
time.sleep(.1)
os.kill(first.pid, signal.SIGKILL)
{wait}
print("gone")
"""
WAITS = {"by name": ("os.waitpid(first.pid, 0)", ""), "whoever ends": ("pids.reap_until_gone(first.pidfd)", "gone\n")}


@pytest.mark.skipif(not host.has_admin(), reason="needs the right to make a PID namespace")
@pytest.mark.parametrize(("wait", "said"), WAITS.values(), ids=WAITS)
def test_a_namespace_ends_although_it_has_a_child_that_nobody_knew(wait, said):
    """The kernel lets the first process go once all others have been reaped: who waits for it alone waits for ever."""
    command = [sys.executable, "-c", UNKNOWN_CHILD.format(wait=wait)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            found = process.communicate(timeout=20 if said else 3)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            found = process.communicate()[0]
    assert found == said
