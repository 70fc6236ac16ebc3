"""Ten shell sessions side by side, against a bash process a command, ten at a time.

`python bench/shells.py [NUM_COMMANDS]`: commands for each session; every output is checked.
"""

import asyncio
import sys
import time

from burnish.sandbox import ResourceLimits
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import PlaceSpec

NUM_SESSIONS = 10


async def in_sessions(num_commands: int) -> float:
    """Commands a second in sessions."""
    places = LocalPlaces()
    try:
        place = await places.start(PlaceSpec(limits=ResourceLimits(num_processes=64)))
        shells = [await place.open_shell() for _ in range(NUM_SESSIONS)]

        async def use(index: int) -> None:
            for number in range(num_commands):
                reply = await shells[index].send(f"echo {index} {number}")
                assert reply.output == f"{index} {number}\n", reply

        await asyncio.gather(*[shell.send("cd /tmp") for shell in shells])
        started = time.perf_counter()
        await asyncio.gather(*[use(index) for index in range(NUM_SESSIONS)])
        return NUM_SESSIONS * num_commands / (time.perf_counter() - started)
    finally:
        await places.stop()


async def in_processes(num_commands: int) -> float:
    """Commands a second with a bash for each."""

    async def use(index: int) -> None:
        for number in range(num_commands):
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", f"echo {index} {number}", stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
            assert output == f"{index} {number}\n".encode(), output

    started = time.perf_counter()
    await asyncio.gather(*[use(index) for index in range(NUM_SESSIONS)])
    return NUM_SESSIONS * num_commands / (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    num_commands = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    sessions = asyncio.run(in_sessions(num_commands))
    processes = asyncio.run(in_processes(num_commands))
    print(f"bash process a command, unisolated, {NUM_SESSIONS} at a time: {processes:.0f} commands/s")
    print(f"{NUM_SESSIONS} shell sessions: {sessions:.0f} commands/s ({sessions / processes:.2f}x)")


if __name__ == "__main__":
    main()
