"""Places: what runs, what is kept, what is set back, and that nothing is left."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import ResourceLimits
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec
from tests.sandbox.places.conftest import Do

LIMITS = ResourceLimits(cpu_s=10.0, memory_mb=256, disk_mb=8, num_files=256, num_processes=16)


@pytest.fixture(scope="module")
def places(do: Do) -> Iterator[LocalPlaces]:
    made = LocalPlaces()
    yield made
    do(made.stop())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repository/src").mkdir(parents=True)
    for number in range(5):
        (tmp_path / f"repository/src/{number}.py").write_text(f"x = {number}\n")
    (tmp_path / "repository/README").write_text("read me\n")
    return tmp_path / "repository"


@pytest.fixture
def place(do: Do, places: LocalPlaces, repository: Path):
    made = do(places.start(PlaceSpec(layers=(repository,), limits=LIMITS)))
    yield made
    do(made.stop())


@pytest.fixture
def sh(do: Do, place) -> Callable[..., str]:
    def run(script: str, at=place, **rest: Any) -> str:
        outcome = do(at.run(Command(argv=("sh", "-c", script), **rest)))
        assert outcome.exit_code is not None, outcome
        return (outcome.stdout + outcome.stderr).decode().strip()

    return run


def test_a_command_has_input_output_code_folder_and_environment(do, place):
    script = "cat; pwd; echo $A; echo no >&2; exit 3"
    outcome = do(place.run(Command(argv=("sh", "-c", script), stdin=b"in\n", cwd="src", env={"A": "b"})))
    assert (outcome.ending, outcome.exit_code) == ("exited", 3)
    assert (outcome.stdout, outcome.stderr) == (b"in\n/work/src\nb\n", b"no\n")


def test_a_program_that_is_not_there_is_code_127(do, place):
    outcome = do(place.run(Command(argv=("no-such-program",))))
    assert outcome.exit_code == 127 and b"no-such-program" in outcome.stderr


def test_a_repository_can_be_changed_and_its_folder_on_the_host_stays_as_it_was(sh, repository):
    assert sh("echo more >> README; rm src/1.py; chmod 700 src; cat README") == "read me\nmore"
    assert (repository / "README").read_text() == "read me\n" and (repository / "src/1.py").exists()


def test_layers_lie_one_over_another(do, places, repository, tmp_path):
    (tmp_path / "top").mkdir()
    (tmp_path / "top/README").write_text("top\n")
    place = do(places.start(PlaceSpec(layers=(repository, tmp_path / "top"), limits=LIMITS)))
    outcome = do(place.run(Command(argv=("cat", "README", "src/2.py"))))
    do(place.stop())
    assert outcome.stdout == b"top\nx = 2\n"


def test_git_and_python_work(sh):
    script = "git init -q . && git add -A && git -c user.name=a -c user.email=b commit -qm x && git ls-files | wc -l"
    assert sh(script) == "6"
    assert sh("python3 -c 'import json, pytest; print(json.dumps([1]))'") == "[1]"


def test_a_command_past_its_time_dies_with_what_it_started(do, place, sh):
    outcome = do(place.run(Command(argv=("sh", "-c", "setsid sleep 99 & sleep 98; echo"), wall_s=0.3)))
    assert (outcome.ending, outcome.exit_code) == ("timed_out", None)
    assert sh("grep -l sleep /proc/*/comm; true") == ""


def test_output_beyond_its_cap_ends_a_command(do, place):
    outcome = do(place.run(Command(argv=("yes",), output_bytes=5000)))
    assert outcome.ending == "over_output" and len(outcome.stdout) == 5000


def test_a_cancelled_command_is_gone(do, place, sh):
    async def cancel() -> None:
        task = asyncio.ensure_future(place.run(Command(argv=("sleep", "97"))))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    do(cancel())
    assert sh("grep -l sleep /proc/*/comm; true") == ""


def test_a_process_left_behind_goes_on_and_does_not_hold_the_command_up(do, place, sh):
    started = time.monotonic()
    outcome = do(place.run(Command(argv=("sh", "-c", "(sleep 96; echo late) & echo $! now"))))
    child, said = outcome.stdout.split()
    assert said == b"now" and time.monotonic() - started < 50
    assert sh(f"kill -0 {int(child)} && echo lives") == "lives"


def test_commands_run_side_by_side(do, place):
    async def both() -> list[bytes]:
        reader = place.run(Command(argv=("sh", "-c", "mkfifo f; echo made > m; cat f")))
        writer = place.run(Command(argv=("sh", "-c", "until [ -e m ]; do sleep .02; done; echo through > f")))
        return [outcome.stdout for outcome in await asyncio.gather(reader, writer)]

    assert do(both()) == [b"through\n", b""]


def test_files_are_written_and_read(do, place, sh):
    do(place.write("a/b/c.bin", b"\0\1" * 5000))
    do(place.write("/tmp/t", b"t"))
    assert do(place.read("/work/a/b/c.bin", 10_000)) == b"\0\1" * 5000
    assert sh("stat -c %U a/b/c.bin /tmp/t") == "agent\nagent"
    do(place.write("README", b"short"))
    assert do(place.read("README", 100)) == b"short"


def test_a_restore_brings_back_what_was_removed(do, place, sh):
    sh("echo kept > new; rm src/2.py")
    snapshot = do(place.snapshot())
    sh("rm -rf /work/* /work/.[a-z]*; mkdir src; echo bad > src/1.py; echo residue > /tmp/r")
    do(place.restore(snapshot))
    assert sh("cat new; ls src; ls /tmp") == "kept\n0.py\n1.py\n3.py\n4.py"
    assert sh("cat src/1.py") == "x = 1"


def test_a_restore_kills_what_runs(do, place, sh):
    snapshot = do(place.snapshot())
    do(place.run(Command(argv=("sh", "-c", "setsid sleep 95 >/dev/null 2>&1 &"))))
    do(place.restore(snapshot))
    assert sh("grep -l sleep /proc/*/comm; true") == ""


def test_snapshots_are_a_tree(do, place, sh):
    root = do(place.snapshot())
    sh("echo 1 > a")
    left = do(place.snapshot())
    do(place.restore(root))
    sh("echo 2 > a")
    right = do(place.snapshot())
    found = []
    for snapshot in (left, right, left, root):
        do(place.restore(snapshot))
        found.append(sh("cat a 2>/dev/null; true"))
    assert found == ["1", "2", "1", ""]


def test_a_snapshot_under_a_writer_is_a_copy_and_the_writer_goes_on(do, place, sh):
    do(place.run(Command(argv=("sh", "-c", "while :; do echo x; sleep .01; done > log 2>/dev/null &"))))
    snapshot = do(place.snapshot())
    at_first = len(sh("cat log"))
    deadline = time.monotonic() + 20
    while len(sh("cat log")) <= at_first and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(sh("cat log")) > at_first
    do(place.restore(snapshot))
    size = sh("stat -c %s log")
    assert sh("sleep .1; stat -c %s log") == size


def test_many_snapshots_in_a_row_all_stay_right(do, place, sh):
    snapshots = []
    for number in range(30):
        sh(f"echo {number} > n; rm -f only-*; touch only-{number}")
        snapshots.append(do(place.snapshot()))
    for number in (0, 23, 24, 25, 29):
        do(place.restore(snapshots[number]))
        assert sh("cat n; ls only-*") == f"{number}\nonly-{number}"


def test_a_fork_and_its_origin_do_not_see_each_other(do, place, sh):
    sh("echo shared > f; rm src/3.py")
    fork = do(place.fork(do(place.snapshot())))
    sh("echo origin > f")
    assert sh("cat f; echo fork > f; ls src", at=fork) == "shared\n0.py\n1.py\n2.py\n4.py"
    assert sh("cat f") == "origin" and sh("cat f", at=fork) == "fork"
    do(fork.stop())
    assert sh("cat f") == "origin"


def test_a_fork_outlives_its_origin(do, places, repository):
    async def outlive() -> bytes:
        origin = await places.start(PlaceSpec(layers=(repository,), limits=LIMITS))
        await origin.write("f", b"of the origin")
        fork = await origin.fork(await origin.snapshot())
        await origin.stop()
        content = await fork.read("f", 100)
        again = await fork.fork(await fork.snapshot())
        await fork.stop()
        content += await again.read("f", 100)
        await again.stop()
        return content

    assert do(outlive()) == b"of the origin" * 2


def test_a_diff_names_what_was_added_changed_and_deleted(do, place, sh):
    sh("echo 1 > same; echo 1 > gone; mkdir -p deep/er; echo 1 > deep/er/f")
    old = do(place.snapshot())
    sh("echo 2 >> README; rm gone; rm -r src; mkdir src; echo 1 > src/own; touch same; chmod +x deep/er/f; ln -s / l")
    expected = {f"src/{number}.py": "deleted" for number in range(5)} | {
        "README": "changed",
        "gone": "deleted",
        "src/own": "added",
        "deep/er/f": "changed",
        "l": "added",
    }
    assert do(place.diff(old)) == expected
    new = do(place.snapshot())
    assert do(place.diff(new, old))["src/own"] == "deleted"
    assert do(place.diff(new, new)) == {}
    assert do(place.diff())["deep/er/f"] == "added"


def test_holes_stay_holes_in_a_snapshot_under_a_writer_and_a_diff_sees_what_is_in_them(do, place, sh):
    sh("truncate -s 6M sparse; printf x | dd of=sparse bs=1 seek=5000000 conv=notrunc; sleep 60 > /dev/null 2>&1 &")
    first = do(place.snapshot())  # a copy, since something lives; the disk has 8 MB
    sh("printf x | dd of=sparse bs=1 seek=5000000 conv=notrunc")
    second = do(place.snapshot())
    assert do(place.diff(first, second)) == {}
    sh("printf y | dd of=sparse bs=1 seek=3000000 conv=notrunc")
    assert do(place.diff(second)) == {"sparse": "changed"}


def test_a_diff_follows_no_link(do, place, sh, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/f").write_text("s")
    sh("mkdir d; echo 1 > d/f")
    old = do(place.snapshot())
    sh(f"rm -r d; ln -s {tmp_path}/secret d")
    assert do(place.diff(old)) == {"d": "added", "d/f": "deleted"}


def test_a_given_root_is_used_and_is_read_only(do, places, tmp_path):
    libraries = re.findall(r"(/\S+) \(", subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True).stdout)
    for path in ("/bin/sh", *libraries):
        target = tmp_path / "root" / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(path).read_bytes())
        target.chmod(0o755)
    place = do(places.start(PlaceSpec(rootfs=tmp_path / "root", limits=LIMITS)))
    script = "echo /* $PWD; echo x > f && echo ok; echo x > /dev/null && echo ok; echo x > /bin/y"
    outcome = do(place.run(Command(argv=("/bin/sh", "-c", script))))
    do(place.stop())
    folders = {"/bin", "/dev", "/proc", "/tmp", "/work"} | {f"/{path.split('/')[1]}" for path in libraries}
    first, *rest = outcome.stdout.decode().splitlines()
    assert set(first.split()) == folders and rest == ["ok", "ok"] and b"Read-only" in outcome.stderr


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (PlaceSpec(layers=(Path("/no/such/folder"),)), "no folder"),
        (PlaceSpec(rootfs=Path("/usr/share"), needs=frozenset({"shell"})), "no /bin/bash"),
    ],
)
def test_a_place_that_cannot_be_as_asked_is_refused(do, places, spec, words):
    with pytest.raises(SandboxError, match=words):
        do(places.start(spec))


def state() -> tuple[str, int]:
    return Path("/proc/self/mountinfo").read_text(), len(os.listdir("/proc/self/fd"))


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def children() -> set[int]:
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for path in found for pid in path.read_text().split()}


def test_stop_leaves_no_process_mount_or_descriptor(do, places, repository):
    async def use() -> set[int]:
        place = await places.start(PlaceSpec(layers=(repository,), limits=LIMITS))
        fork = await place.fork(await place.snapshot())
        await fork.run(Command(argv=("sh", "-c", "setsid sleep 94 >/dev/null 2>&1 &")))
        await place.open_shell()
        await fork.diff()
        pids = children()
        await place.stop()
        await place.stop()
        await fork.stop()
        return pids

    do(use())
    before = state()
    pids = do(use())
    assert state() == before and pids and not alive(pids - children())


def test_a_stopped_place_refuses(do, places, repository):
    place = do(places.start(PlaceSpec(layers=(repository,), limits=LIMITS)))
    do(place.stop())
    with pytest.raises(SandboxError, match="stopped"):
        do(place.run(Command(argv=("true",))))


def test_a_keeper_that_is_killed_is_an_error_and_takes_all_along(do, places, repository):
    async def kill() -> None:
        before = children()
        place = await places.start(PlaceSpec(layers=(repository,), limits=LIMITS))
        running = asyncio.ensure_future(place.run(Command(argv=("sleep", "93"))))
        await asyncio.sleep(0.2)
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)
        try:
            await running
        finally:
            await place.stop()

    with pytest.raises(SandboxError, match="gone"):
        do(kill())


def test_nothing_outlives_the_host():
    script = f"""
import asyncio
from pathlib import Path
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec
async def main():
    place = await LocalPlaces().start(PlaceSpec())
    await place.run(Command(argv=("sh", "-c", "setsid sleep 9{os.getpid()} & sleep 60")))
asyncio.run(main())
"""
    host = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)

    def sleepers() -> list[Path]:
        name = f"9{os.getpid()}".encode()
        return [path for path in Path("/proc").glob("[0-9]*/cmdline") if name in _read(path).split(b"\0")]

    assert _wait_until(sleepers)
    host.kill()
    host.wait(10)
    assert _wait_until(lambda: not sleepers())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _wait_until(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def test_the_example_in_the_documents_runs(places):
    text = (Path(__file__).parents[3] / "docs/places.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
