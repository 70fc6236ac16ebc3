"""What code in a place tries on its keeper, its reader, its host and its neighbours, and what comes of it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import Outcome, ResourceLimits, cgroups
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec
from tests.sandbox.places.conftest import Do

LIMITS = ResourceLimits(cpu_s=5.0, memory_mb=96, disk_mb=4, num_files=100, num_processes=12)


@pytest.fixture(scope="module")
def shared(do: Do):
    places = LocalPlaces()
    place = do(places.start(PlaceSpec(limits=LIMITS)))
    yield place, do(place.snapshot())
    do(places.stop())


@pytest.fixture
def place(do: Do, shared):
    place, start = shared
    do(place.restore(start))
    return place


@pytest.fixture
def run(do: Do, place) -> Callable[..., Outcome]:
    return lambda script, **rest: do(place.run(Command(argv=("sh", "-c", script), **rest)))


@pytest.fixture
def python(do: Do, place) -> Callable[..., Outcome]:
    return lambda source, **rest: do(place.run(Command(argv=("python3", "-c", source), **rest)))


@pytest.mark.parametrize(
    "make",
    [
        "ln -s {canary} out",
        "ln -s {folder} d; ln -s d/canary out",
        "ln -s /proc/self/root out",
        "mkfifo out",
        "mkdir out",
        "ln -s /dev/zero out",
        "python3 -c 'import socket; socket.socket(1).bind(\"out\")'",
        "ln -s out out",
    ],
)
def test_an_artifact_that_is_no_regular_file_is_refused_at_once(do, place, run, tmp_path, make):
    (tmp_path / "canary").write_text("secret")
    run(make.format(canary=tmp_path / "canary", folder=tmp_path))
    with pytest.raises(SandboxError, match="out"):
        do(place.read("out", 100))
    with pytest.raises(SandboxError, match="out"):
        do(place.write("out", b"overwritten"))
    assert (tmp_path / "canary").read_text() == "secret"


def test_a_folder_that_is_a_link_leads_nowhere(do, place, run, tmp_path):
    run(f"ln -s {tmp_path} d; ln -s / r")
    for path in ("d/planted", "r/etc/planted"):
        with pytest.raises(SandboxError, match="planted"):
            do(place.write(path, b"x"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["../etc/passwd", "/etc/passwd", "/work/../etc/passwd", "a/../../x", "", "/work", "a\0b"]
)
def test_paths_that_leave_the_writable_folders_are_refused(do, place, path):
    with pytest.raises(SandboxError, match="bad path"):
        do(place.read(path, 100))


def test_an_artifact_beyond_its_cap_is_refused(do, place, run):
    run("head -c 5000 /dev/zero > big; truncate -s 1000G sparse 2>/dev/null; true")
    assert len(do(place.read("big", 5000))) == 5000
    with pytest.raises(SandboxError, match="larger"):
        do(place.read("big", 4999))


def test_a_leased_file_does_not_hold_the_reader_up(do, place):
    source = (
        "import fcntl, time; f = open('out', 'w'); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK); "
        "print(1, flush=True); time.sleep(3)"
    )

    async def read() -> float:
        holder = asyncio.ensure_future(place.run(Command(argv=("python3", "-c", source))))
        await asyncio.sleep(1.0)
        started = asyncio.get_running_loop().time()
        with suppress(SandboxError):
            await place.read("out", 10)
        took_s = asyncio.get_running_loop().time() - started
        await holder
        return took_s

    assert do(read()) < 2


def test_the_disk_ends_where_it_should(do, place, run):
    outcome = run("for i in 1 2 3; do head -c 3000000 /dev/zero > f$i; done; head -c 9000000 /dev/zero > /tmp/g")
    assert outcome.exit_code != 0 and b"No space" in outcome.stderr
    with pytest.raises(SandboxError, match="space"):
        do(place.write("h", bytes(3_000_000)))


def test_inodes_end_where_they_should(run):
    outcome = run("i=0; while [ $i -lt 300 ]; do : > f$i || exit 1; i=$((i+1)); done")
    assert outcome.exit_code != 0 and b"No space" in outcome.stderr


def test_a_full_disk_fails_a_snapshot_or_not_but_never_the_place(do, place, run):
    run("head -c 9000000 /dev/zero > f; i=0; while [ $i -lt 300 ]; do : > f$i || exit 0; i=$((i+1)); done")
    for _ in range(3):
        try:
            do(place.restore(do(place.snapshot())))
        except SandboxError:
            continue
    run("rm -rf /work/*")
    assert run("echo on").stdout == b"on\n"


def test_a_fork_bomb_meets_its_limit_and_leaves_the_place_usable(do, place, run):
    outcome = run("b() { b | b & }; b; sleep .5", wall_s=20.0)
    assert outcome.ending in ("exited", "timed_out", "killed")
    fresh = do(place.fork(do(place.snapshot())))  # the sibling has a count of its own
    assert do(fresh.run(Command(argv=("echo", "on")))).stdout == b"on\n"
    do(fresh.stop())


def test_memory_of_the_whole_tree_is_limited(python):
    source = (
        "import os, time\nfor _ in range(4):\n"
        "    if os.fork() == 0: x = bytearray(os.urandom(1)) * (40 << 20); time.sleep(60); os._exit(0)\n"
    )
    outcome = python(source + "print(os.wait()[1])")  # the first to end is one that was killed
    assert (outcome.ending, outcome.stdout) == ("over_memory", b"9\n")


@pytest.mark.parametrize("kept", ["m", "m, m.resize(4096)"], ids=["dropped", "cut"])
def test_shared_memory_that_no_process_holds_counts_too(do, place, python, kept):
    if "memory" not in cgroups.usable(cgroups.trees()):
        pytest.skip("no control group with a memory limit can be made here")
    source = f"""
import mmap
kept = []
for _ in range(6):
    m = mmap.mmap(-1, 64 << 20)
    for at in range(0, 64 << 20, 1 << 20):
        m[at : at + (1 << 20)] = bytes(range(1, 2)) * (1 << 20)
        m.madvise(mmap.MADV_DONTNEED)
    kept.append(({kept},))
"""
    assert python(source).ending == "over_memory"
    assert python("print(1)").stdout == b"1\n"


def test_no_program_can_hide_from_the_memory_killer(python):
    outcome = python("print(open('/proc/self/oom_score_adj').read()); open('/proc/self/oom_score_adj', 'w')")
    assert outcome.stdout.split() == [b"500"] and b"Read-only" in outcome.stderr


def test_a_program_cannot_grow_what_it_is_given_to_read(do, place):
    grow = "import os, sys; print(sys.stdin.read()); os.ftruncate(0, 1 << 20)"
    outcome = do(place.run(Command(argv=("python3", "-c", grow), stdin=b"given")))
    assert outcome.stdout == b"given\n" and b"Operation not permitted" in outcome.stderr


def test_a_snapshot_that_somebody_prevents_is_refused_soon_and_the_place_goes_on(do, place, python):
    never_rests = """
import ctypes, os
libc = ctypes.CDLL(None)
if os.fork() == 0:
    os.setsid()
    if libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x4111, 0, 0, 0, 0) == 0:  # as vfork does
        libc.sleep(60)
        libc._exit(0)
open("changed", "w")
"""
    python(never_rests)
    started = time.monotonic()
    with pytest.raises(SandboxError, match="did not stand still"):
        do(place.snapshot())
    assert time.monotonic() - started < 20
    assert python("print(1)").stdout == b"1\n"


def test_a_tree_too_deep_for_paths_cannot_stop_a_restore(do, place, run):
    start = do(place.snapshot())
    source = "import os\nfor _ in range(80): os.mkdir('d' * 100); os.chdir('d' * 100)\nopen('f', 'w')"
    assert do(place.run(Command(argv=("python3", "-c", source)))).exit_code == 0
    do(place.restore(start))
    assert run("ls").stdout == b"" and do(place.run(Command(argv=("python3", "-c", source)))).exit_code == 0


def test_nothing_of_the_host_can_be_seen(run, tmp_path):
    (tmp_path / "canary").write_text("secret")
    listing = run(
        f"ls /; ls -d /root /home /etc/shadow /sys /proc/sys {tmp_path}/canary 2>/dev/null; env"
    ).stdout.decode()
    assert set(listing.split()) & {"root", "home", "/root", "/home", "/etc/shadow", "/sys", "/proc/sys"} == set()
    assert "secret" not in listing and str(tmp_path) not in listing and "HF_" not in listing


def test_the_keeper_and_the_host_have_no_pid_inside(run, python):
    assert run("ls -d /proc/[0-9]* | wc -l").stdout.strip() in (b"2", b"3", b"4")
    source = (
        "import os\nfor pid in (1, 2):\n    try: print(open(f'/proc/{pid}/environ').read())\n"
        "    except OSError as e: print(type(e).__name__)\nfor pid in (-1, 1):\n"
        "    try: os.kill(pid, 9)\n    except OSError: pass\nprint('on')"
    )
    assert python(source).stdout.endswith(b"on\n") and run("echo alive").stdout == b"alive\n"


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket; socket.socket(40, 1)",
        "import socket; socket.socket(2, 1)",
        "import socket; socket.socket(16, 3)",
        "import os; os.open('/proc/sys/kernel/core_pattern', 1)",
        "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.unshare(0x10000000) and 1/0",
        "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.mount(b'x', b'/tmp', b'tmpfs', 0, None) and 1/0",
        "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.umount2(b'/work', 2) and 1/0",
        "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.ptrace(16, os.getppid(), 0, 0) and 1/0",
        "import os; os.setuid(0)",
        "import os; os.mknod('/tmp/sda', 0o60666, os.makedev(8, 0))",
        "open('/usr/bin/planted', 'w')",
        "open('/dev/planted', 'w')",
        "open('/etc/passwd', 'a')",
        "import os; os.chroot('/tmp')",
        "import os; os.listdir('/store')",
        "import resource as r; r.setrlimit(r.RLIMIT_NPROC, (99, 99))",
        "import os; os.setxattr('/work', 'trusted.overlay.opaque', b'y')",
    ],
)
def test_what_would_lead_out_is_an_error(python, attempt):
    outcome = python(f"try:\n    exec({attempt!r})\nexcept Exception: print('held')\nelse: print('went through')")
    assert outcome.stdout == b"held\n"


def test_marks_of_the_overlay_that_code_sets_itself_change_nothing(do, place, run, tmp_path):
    source = (
        "import os; os.mkdir('d'); os.setxattr('d', 'user.overlay.opaque', b'y'); "
        "os.setxattr('d', 'user.overlay.redirect', b'/usr')"
    )
    do(place.run(Command(argv=("python3", "-c", source))))
    do(place.snapshot())
    assert run("ls d; echo x > d/f; cat d/f").stdout == b"x\n"


def test_two_families_share_no_socket_name(do, place):
    listen = (
        "import socket, time; s = socket.socket(1); s.bind('\\0meet'); s.listen(); "
        "print(1, flush=True); time.sleep(1.5)"
    )
    call = "import socket; socket.socket(1).connect('\\0meet')"

    async def meet() -> tuple[int | None, int | None]:
        fork = await place.fork(await place.snapshot())
        listening = asyncio.ensure_future(place.run(Command(argv=("python3", "-c", listen))))
        await asyncio.sleep(1.0)
        near, far = [await each.run(Command(argv=("python3", "-c", call))) for each in (place, fork)]
        await listening
        await fork.stop()
        return near.exit_code, far.exit_code

    assert do(meet()) == (0, 1)


AS_NOBODY = """
import asyncio
from pathlib import Path
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec
async def main():
    places = LocalPlaces()
    place = await places.start(PlaceSpec(layers=(Path({layer!r}),)))
    script = "id -u; echo more >> f; rm -r d; mkdir d; cat f; grep CapEff /proc/self/status"
    print((await place.run(Command(argv=("sh", "-c", script)))).stdout.decode())
    snapshot = await place.snapshot()
    fork = await place.fork(snapshot)
    shell = await fork.open_shell()
    print((await shell.send("cat f; ls d | wc -l")).output, await place.diff())
    await places.stop()
asyncio.run(main())
"""


@pytest.mark.slow
def test_an_ordinary_user_can_have_places_too(do, open_to_all):
    if os.getuid() != 0:
        pytest.skip("this whole run is an ordinary user's")
    layer = open_to_all / "layer"
    (layer / "d").mkdir(parents=True)
    (layer / "f").write_text("first\n")
    (layer / "d/g").write_text("g\n")
    for path in (layer, *layer.rglob("*")):
        os.chown(path, 65534, 65534)
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONDONTWRITEBYTECODE": "1"}

    def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, user=65534, group=65534, extra_groups=[], env=given, cwd="/", capture_output=True, text=True
        )

    def can_import(python: str) -> bool:
        try:
            return as_nobody(python, "-c", "import burnish.sandbox.local_place").returncode == 0
        except OSError:
            return False

    if not Path("/usr/bin/python3").exists() or not can_import("/usr/bin/python3"):
        pytest.skip("no interpreter that an ordinary user can run with this package")
    done = as_nobody("/usr/bin/python3", "-c", AS_NOBODY.format(layer=str(layer)))
    assert done.stdout.split() == [
        *"1000 first more CapEff: 0000000000000000 first more 0".split(),
        *"{'d/g': 'deleted', 'f': 'changed'}".split(),
    ], done.stderr
