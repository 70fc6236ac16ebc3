"""Jobs follow one another in one cell, and none finds a trace of another."""

import asyncio
import os

import pytest

from burnish.sandbox import Job, Outcome, ResourceLimits, missing, open_box

ROOMY = ResourceLimits(wall_s=60.0)
FIRST_BEGAN = "open('/proc/1/stat').read().rpartition(')')[2].split()[19]"
FORKS = "import os\nif os.fork() == 0: os._exit(0)\nos.wait()"
THREADS = "import threading; t = threading.Thread(target=int); t.start(); t.join()"
NUMBERS = "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.wait(); print(os.getpid(), pid)"
MASK = bytes(i ^ 0x55 for i in range(256))  # so that who searches does not find what it searches for
FIND_IN_MEMORY = """
mask = bytes(i ^ 0x55 for i in range(256))
found = 0
with open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in open("/proc/self/maps"):
        first, last = (int(place, 16) for place in line.split()[0].split("-"))
        if "rw" in line.split()[1]:
            memory.seek(first)
            found += memory.read(last - first).translate(mask).count({masked!r})
print(found)
"""
SHARED = "[line.split()[0] for line in open('/proc/self/maps') if line.split()[1] == 'rw-s']"
SOCKET_LEFT = """
import array, socket
kept = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
kept.bind("\\0left-behind")
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
held = array.array("i", [a.fileno(), b.fileno(), kept.fileno()])
for each in (a, b):  # a circle of sockets that hold each other and the one with the name
    each.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, held)])
"""


@pytest.fixture(autouse=True)
def _isolating_host():
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")


def in_a_row(*sources: str, **rest: bytes) -> list[Outcome]:
    """Run jobs one after another on one worker, whose cells they share."""

    async def run() -> list[Outcome]:
        async with open_box(num_workers=1) as box:
            return [await box.run(Job(source=source, limits=ROOMY, **rest)) for source in sources]

    return asyncio.run(run())


def test_jobs_that_start_nothing_share_a_pid_namespace():
    began = [outcome.stdout for outcome in in_a_row(*[f"print({FIRST_BEGAN})"] * 9)]
    assert len(set(began[3:])) <= 2  # the worker's slot and the spare one


@pytest.mark.parametrize("starts", [FORKS, THREADS], ids=["process", "thread"])
def test_a_job_that_has_started_something_ends_its_pid_namespace(starts):
    look = f"print({FIRST_BEGAN})"
    began = [outcome.stdout.split()[-1] for outcome in in_a_row(*[f"{look}\n{starts}"] * 8)]
    assert len(set(began)) == len(began) or os.sysconf("SC_CLK_TCK") < 1000


@pytest.mark.parametrize("starts", [FORKS, THREADS, "pass"], ids=["process", "thread", "nothing"])
def test_each_program_is_number_two_and_its_child_number_three_whatever_ran_before(starts):
    outcomes = in_a_row(*[starts, NUMBERS] * 4)
    assert [outcome.stdout for outcome in outcomes[1::2]] == [b"2 3\n"] * 4


def test_no_text_or_name_of_a_job_is_in_the_memory_of_a_later_one():
    word = b"quicksilver-mercury"
    leave = f"""
import ctypes, os, time
assert {word!r} in open("data.txt", "rb").read()
ctypes.CDLL(None).prctl(15, {word[:15]!r}, 0, 0, 0)
if os.fork() == 0:
    time.sleep(.1)
    os._exit(0)
os.wait()
print({word!r} * 100)
raise SystemExit(77)
"""

    async def run() -> list[bytes]:
        async with open_box(num_workers=1) as box:
            for _ in range(3):
                files = {"data.txt": word * 1000}
                outcome = await box.run(Job(source=leave, files=files, stdin=word * 50, limits=ROOMY))
                assert outcome.exit_code == 77
            source = FIND_IN_MEMORY.format(masked=word[:15].translate(MASK))
            return [(await box.run(Job(source=source, limits=ROOMY))).stdout for _ in range(4)]

    assert asyncio.run(run()) == [b"0\n"] * 4


def test_the_search_of_memory_finds_what_is_there():
    word = b"quicksilver-mercury"
    source = f"kept = bytearray({word!r})\n" + FIND_IN_MEMORY.format(masked=word.translate(MASK))
    (outcome,) = in_a_row(source)
    assert int(outcome.stdout) >= 1


def test_the_shared_page_of_a_slot_is_empty_for_each_job():
    source = f"""
import ctypes
pages = {SHARED}
first = int(pages[0].split("-")[0], 16)
page = (ctypes.c_char * 4096).from_address(first)
print(len(pages), sum(page.raw[2:]))
ctypes.memset(first + 2, 255, 4000)
"""
    outcomes = in_a_row(*[source] * 6)
    assert [outcome.stdout for outcome in outcomes] == [b"1 0\n"] * 6


def test_a_socket_that_outlives_its_job_is_in_no_later_jobs_network():
    look = "print(open('/proc/self/net/unix').read().count('left-behind'))"
    outcomes = in_a_row(*[SOCKET_LEFT, look] * 6)
    assert [outcome.stdout for outcome in outcomes[1::2]] == [b"0\n"] * 6


def test_the_count_that_a_slot_looks_at_sees_each_socket():
    source = """
import socket
count = lambda: open("/proc/self/net/sockstat").readline().strip()
before = count()
kept = socket.socket(socket.AF_UNIX)
print(before, count())
"""
    (outcome,) = in_a_row(source)
    assert outcome.stdout == b"sockets: used 0 sockets: used 1\n"


def test_the_first_process_can_be_neither_slowed_nor_bound_to_a_processor():
    source = """
import os
for change in (
    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.sched_setaffinity(1, {0}),
    lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    lambda: os.kill(1, 9),
):
    try:
        change()
        print("changed")
    except PermissionError:
        pass
print(os.getpriority(os.PRIO_PROCESS, 1))
"""
    first, second = in_a_row(source, source)
    assert first.stdout == second.stdout and (b"changed" not in first.stdout or os.getuid() != 0)


def test_a_folder_has_no_marks_of_the_job_before():
    source = """
import os
for place in ("/work", "/tmp", "/dev/shm"):
    print(oct(os.stat(place).st_mode), os.listxattr(place), os.listdir(place), os.stat(place).st_mtime > 1e9)
    os.chmod(place, 0o777)
    try:
        os.setxattr(place, "user.mark", b"1")
    except OSError:
        pass
    os.utime(place, (5, 5))
    open(place + "/file", "w").close()
"""
    outcomes = in_a_row(*[source] * 4)
    assert {outcome.stdout for outcome in outcomes} == {b"0o40700 [] [] True\n" * 3}
