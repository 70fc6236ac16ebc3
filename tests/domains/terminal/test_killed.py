"""A process that is killed in the middle of an episode leaves nothing of it running."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import asyncio
from burnish.core.types import Task, ToolCall
from burnish.domains import Action
from burnish.domains.terminal.environment import Settings, TerminalEnvironment
from burnish.domains.terminal.grounds import Grounds
from burnish.sandbox import open_box
from tests.domains.terminal.working import FIX

async def main(moment):
    async with open_box("namespaces") as backend:
        environment = TerminalEnvironment(Grounds(backend=backend, base_folder=lambda base: None), Settings())
        truth = {"split": "eval", "task": FIX.to_json()}
        await environment.reset(Task(id="t", domain="terminal", messages=(), truth=truth), 1)
        background = ToolCall(name="shell", arguments={"command": "setsid sleep 600 >/dev/null 2>&1 & echo on"})
        print((await environment.step(Action(text="", call=background))).text.split()[-1], flush=True)
        if moment == "running":
            await environment.step(Action(text="", call=ToolCall(name="shell", arguments={"command": "sleep 600"})))
        if moment == "judging":
            await environment.verdict()
        await asyncio.sleep(600)

asyncio.run(main("MOMENT"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["between turns", "running", "judging"])
def test_a_killed_process_leaves_nothing_of_an_episode(outdoors, moment):
    command = [sys.executable, "-c", SCRIPT.replace("MOMENT", moment)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            time.sleep(0.1)
            started = _below(process.pid)
        finally:
            process.kill()
    assert said.endswith(b"on\n")
    assert len(started) >= 4  # keeper, rooms, bash, sleep
    deadline = time.monotonic() + 10
    while left := [pid for pid in started if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.05)


def _below(pid: int) -> list[int]:
    """All that descends from a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in (task / "children").read_text().split():
            found += [int(child), *_below(int(child))]
    return found
