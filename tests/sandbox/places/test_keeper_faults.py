"""A keeper under orders that go wrong: it lives on, or its place ends with an error and no wait."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec


@pytest.fixture(scope="module")
def places(do):
    places = LocalPlaces()
    yield places
    do(places.stop())


@pytest.fixture
def place(do, places):
    made = do(places._start(PlaceSpec()))
    yield made
    do(made.stop())


def below(pid: int) -> list[int]:
    """Children of a process on this host."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def test_a_snapshot_of_another_place_is_refused_and_nothing_changes(do, places, place):
    other = do(places._start(PlaceSpec()))
    strange = do(other.snapshot())
    do(other.stop())
    do(place.snapshot())
    do(place.write("f", b"kept"))
    with pytest.raises(SandboxError, match="belongs to another place"):
        do(place.restore(strange))
    assert do(place.read("f", 9)) == b"kept"


def test_a_stop_that_is_cancelled_is_a_stop_all_the_same(do, places):
    async def cancel() -> int:
        place = await places._start(PlaceSpec())
        await place.open_shell()
        stopping = asyncio.ensure_future(place.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        return place._family.link.pid

    pid = do(cancel())
    deadline = time.monotonic() + 20.0
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_whoever_waits_for_what_another_saw_answered_is_told(do, place):
    async def both() -> list[object]:
        shell, link = await place.open_shell(), place._link
        waiting = [asyncio.ensure_future(link.answer(shell.number)) for _ in range(2)]
        await asyncio.sleep(0)
        await link.ask("kill", task=shell.number)
        return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10.0)

    first, second = do(both())
    assert first.said["code"] == -9 and isinstance(second, SandboxError)


def test_a_shell_that_ends_while_it_is_closed_twice_holds_nobody_up(do, place):
    async def close() -> None:
        shell = await place.open_shell()
        sending = asyncio.ensure_future(
            shell.send('for i in {3..255}; do eval "exec $i>&-"; done 2>/dev/null; sleep 60')
        )
        await asyncio.sleep(0.3)
        closing = asyncio.gather(shell.close(), shell.close(), sending, return_exceptions=True)
        await asyncio.wait_for(closing, 10.0)

    do(close())


def test_a_path_of_any_length_is_refused_and_the_place_goes_on(do, place):
    for letters in ("a" * 300_000, "\N{SNOWMAN}" * 30_000):
        with pytest.raises(SandboxError, match="cannot open"):
            do(place.read(letters, 10))
    assert do(place.run(Command(argv=("echo", "on")))).stdout == b"on\n"


def test_a_room_whose_first_process_died_is_an_error_until_it_is_restored(do, place):
    start = do(place.snapshot())
    (keeper,) = below(place._link.pid)
    (holder,) = below(keeper)
    os.kill(holder, signal.SIGKILL)
    while b") Z" not in Path(f"/proc/{holder}/stat").read_bytes():  # it stays one until the keeper looks
        time.sleep(0.001)
    with pytest.raises(SandboxError):
        do(place.run(Command(argv=("true",))))
    do(place.restore(start))
    assert do(place.run(Command(argv=("echo", "on")))).stdout == b"on\n"


@pytest.mark.parametrize("what", ["run", "read", "write", "snapshot", "restore", "fork", "diff", "open_shell", "send"])
def test_a_keeper_that_dies_in_the_middle_of_an_order_is_an_error_at_once(do, what):
    async def attempt() -> None:
        places = LocalPlaces()
        place = await places._start(PlaceSpec())
        shell, start = await place.open_shell(), await place.snapshot()
        (keeper,) = below(place._link.pid)
        os.kill(keeper, signal.SIGSTOP)
        orders = {
            "run": lambda: place.run(Command(argv=("true",))),
            "read": lambda: place.read("f", 1),
            "write": lambda: place.write("f", b""),
            "snapshot": place.snapshot,
            "restore": lambda: place.restore(start),
            "fork": lambda: place.fork(start),
            "diff": place.diff,
            "open_shell": place.open_shell,
            "send": lambda: shell.send("sleep 9"),
        }
        order = asyncio.ensure_future(orders[what]())
        await asyncio.sleep(0.05)
        os.kill(keeper, signal.SIGKILL)
        try:
            await asyncio.wait_for(order, 20)
        finally:
            await places.stop()

    with pytest.raises(SandboxError):
        do(attempt())


STOPPED = r"""
import asyncio
from burnish.core.errors import SandboxError
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec
STOP = "import os, signal\nopen('f', 'w')\nwhile 1:\n try: os.kill(-1, signal.SIGSTOP)\n except OSError: pass"
async def main():
    places = LocalPlaces()
    place = await places._start(PlaceSpec())
    running = asyncio.ensure_future(place.run(Command(argv=("python3", "-c", STOP), wall_s=30.0)))
    await asyncio.sleep(1.0)
    for _ in range(3):
        try:
            await place.snapshot()
        except SandboxError as error:
            print(error)
    running.cancel()
    await asyncio.wait([running])
    print((await place.run(Command(argv=("echo", "on")))).stdout.decode())
    await places.stop()
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_room_that_stops_whatever_it_sees_does_not_hold_an_ordinary_users_keeper_up(do):
    if os.getuid() != 0:
        pytest.skip("this whole run is an ordinary user's")
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONDONTWRITEBYTECODE": "1"}
    python = "/usr/bin/python3"
    rest = {"user": 65534, "group": 65534, "extra_groups": [], "env": given, "cwd": "/", "text": True}
    if subprocess.run([python, "-c", "import burnish.sandbox.local_place"], capture_output=True, **rest).returncode:
        pytest.skip("no interpreter that an ordinary user can run with this package")
    done = subprocess.run([python, "-c", STOPPED], capture_output=True, **rest)
    assert done.stdout.split()[-1:] == ["on"] and "did not answer" not in done.stdout, done.stderr
