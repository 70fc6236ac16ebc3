"""What greedy code takes: each limit holds, and the ending says which."""

import time

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import ResourceLimits
from burnish.sandbox.place import Command
from burnish.sandbox.types import MOST

GREEDY = {
    "sleep": ("import time; time.sleep(60)", {"wall_s": 0.5}, "timed_out"),
    "busy loop": ("while True: pass", {"wall_s": 0.5}, "timed_out"),
    "cpu before wall": ("while True: pass", {"cpu_s": 0.3, "wall_s": 15.0}, "timed_out"),
    "cpu in many processes": (
        "import os\nfor _ in range(4): os.fork()\nwhile True: pass",
        {"cpu_s": 0.5, "wall_s": 15.0, "num_processes": 20},
        "timed_out",
    ),
    "cpu in one child after another": (
        "import os, time\nfor _ in range(4):\n  if os.fork() == 0:\n    while time.process_time() < .8: pass\n"
        "    os._exit(0)\n  os.wait()",
        {"cpu_s": 1.0},
        "timed_out",
    ),
    "deaf to the processor limit": (
        "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        {"cpu_s": 0.3, "wall_s": 15.0},
        "timed_out",
    ),
    "memory bomb": ("x = bytearray(1 << 30)", {}, "over_memory"),
    "memory by drops": ("x = []\nwhile True: x.append(bytearray(1 << 20))", {}, "over_memory"),
    "memory in many processes": (
        "import os, time\nfor _ in range(2): os.fork()\nx = bytearray(os.urandom(1 << 10)) * (60 << 10)\ntime.sleep(9)",
        {"wall_s": 15.0},
        "over_memory",
    ),
    "memory shared": (
        "import mmap, os, time\nfor _ in range(2): os.fork()\n"
        "x = mmap.mmap(-1, 60 << 20); x.write(bytes(60 << 20)); time.sleep(9)",
        {"wall_s": 15.0},
        "over_memory",
    ),
    "output flood": ("import os\nwhile True: os.write(1, b'x' * 65536)", {"output_bytes": 10_000}, "over_output"),
    "error flood": ("import os\nwhile True: os.write(2, b'x' * 65536)", {"output_bytes": 10_000}, "over_output"),
    "answer flood": ("import os\nwhile True: os.write(3, b'x' * 65536)", {"output_bytes": 10_000}, "over_output"),
    "output at the end": ("print('x' * 10_001, end='')", {"output_bytes": 10_000}, "over_output"),
    "segmentation fault": ("import ctypes; ctypes.string_at(0)", {}, "killed"),
    "abort": ("import os; os.abort()", {}, "killed"),
    "kill itself": ("import os; os.kill(os.getpid(), 15)", {}, "killed"),
    "C stack overflow": (
        "import sys; sys.setrecursionlimit(1 << 30)\nclass A:\n  def __getattr__(s, n): return getattr(s, n)\nA().x",
        {},
        "killed",
    ),
}


@pytest.mark.parametrize(("source", "limits", "ending"), GREEDY.values(), ids=GREEDY)
def test_a_limit_ends_the_job_and_says_so(run, source, limits, ending):
    outcome = run(source, **limits)
    assert outcome.ending == ending, outcome
    assert len(outcome.stdout + outcome.stderr + outcome.answer) <= limits.get("output_bytes", 1 << 20)


BOUNDED = {
    "processes": ("os.fork() or time.sleep(9)", 8),
    "threads": ("threading.Thread(target=time.sleep, args=(9,), daemon=True).start()", 8),
    "descriptors": ("kept.append(open('/dev/null'))", 256),
    "files": ("open(f'/tmp/{n}', 'w').close()", 64),
    "folders in shared memory": ("os.mkdir(f'/dev/shm/{n}')", 64),
    "megabytes over two folders": ("open(f'/{(\"tmp\", \"work\")[n % 2]}/{n}', 'wb').write(bytes(1 << 20))", 2),
    "megabytes in one file": ("os.write(big, bytes(1 << 20)) == 1 << 20 or 1 / 0", 2),
}


@pytest.mark.parametrize(("step", "at_most"), BOUNDED.values(), ids=BOUNDED)
def test_a_count_is_bounded(run, step, at_most):
    source = f"""
import os, sys, threading, time
kept, big = [], os.open('/tmp/big', os.O_CREAT | os.O_WRONLY)
n = 0
try:
    for n in range(100_000):
        {step}
except (OSError, RuntimeError, ZeroDivisionError):
    pass
os.write(3, str(n).encode())
os._exit(0)
"""
    outcome = run(source, output_bytes=1 << 16)
    assert outcome.ending == "exited" and 1 <= int(outcome.answer) <= at_most, outcome


def test_a_fork_bomb_ends_with_its_job(run):
    outcome = run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", wall_s=0.7)
    assert outcome.ending == "timed_out" and outcome.wall_s < 10


def test_deep_recursion_is_an_ordinary_error(run):
    outcome = run("def f(): f()\nf()")
    assert (outcome.ending, outcome.exit_code) == ("exited", 1) and b"RecursionError" in outcome.stderr


def test_a_big_answer_within_the_cap_is_whole(run):
    outcome = run("import os\nos.write(3, b'')\nopen(3, 'wb').write(b'ab' * 400_000)")
    assert outcome.answer == b"ab" * 400_000 and outcome.ending == "exited"


def test_memory_within_the_limit_is_granted(run):
    assert run("x = bytearray(100 << 20); print(len(x))").stdout == b"104857600\n"


def test_a_killed_job_returns_soon_after_its_deadline(run):
    started = time.monotonic()
    outcome = run("import time; time.sleep(60)", wall_s=0.3)
    assert 0.3 <= outcome.wall_s <= time.monotonic() - started < 5


@pytest.mark.parametrize("name", MOST)
@pytest.mark.parametrize("value", [0, -1, 1 << 63, 10**30, float("nan"), float("inf"), True, "9"])
def test_a_limit_that_nothing_could_hold_is_refused_by_name(name, value):
    with pytest.raises(SandboxError, match=f"bad limit {name} = .*; expected .* to {MOST[name]}$"):
        ResourceLimits(**{name: value})


def test_the_time_and_output_of_a_command_are_limits_too():
    for name in ("wall_s", "output_bytes"):
        with pytest.raises(SandboxError, match=f"bad limit {name}"):
            Command(argv=("true",), **{name: 1 << 63})


@pytest.mark.parametrize("name", MOST)
def test_the_most_that_a_limit_may_be_works(run, name):
    assert run("print(1)", **{name: MOST[name]}).stdout == b"1\n"
