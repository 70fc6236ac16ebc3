"""Plays tool calls of a terminal task in a real place and judges its end, without the environment."""

from pathlib import Path

from burnish.core.types import Json
from burnish.domains.terminal.spec import CommandsCheck, EndStateCheck, TerminalTask
from burnish.rewards import code_tests, end_state
from burnish.rewards.artifacts import collect
from burnish.sandbox import Box, ResourceLimits
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, Place, PlaceSpec

LIMITS = ResourceLimits(wall_s=60.0, cpu_s=30.0, memory_mb=1024, disk_mb=64, num_files=4096, num_processes=64)
SUITE_LIMITS = ResourceLimits(wall_s=90.0, cpu_s=30.0, disk_mb=32, num_files=4096, num_processes=16)


async def outcome(
    places: LocalPlaces, box: Box, task: TerminalTask, calls: tuple, base: Path | None = None
) -> tuple[float, str]:
    """What the end of the calls is worth, and what was printed on the way."""
    place = await places.start(PlaceSpec(limits=LIMITS, layers=(base,) if base else ()))
    try:
        for name, text in task.files.items():
            await place.write(name, text.encode())
        for command in (*(f"chmod +x {name}" for name in task.executable), *task.setup):
            code, said = await _bash(place, command)
            assert code == 0, f"setup {command!r}: {said}"
        said = "".join([await _call(place, call["name"], call["arguments"]) for call in calls])
        return await _judge(place, box, task), said
    finally:
        await place.stop()


async def _call(place: Place, name: str, arguments: dict[str, Json]) -> str:
    match name:
        case "shell":
            return (await _bash(place, arguments["command"]))[1]
        case "create":
            await place.write(arguments["path"], arguments["content"].encode())
        case "replace":
            text = (await place.read(arguments["path"], 1 << 20)).decode()
            assert text.count(arguments["old"]) == 1, (arguments, text)
            await place.write(arguments["path"], text.replace(arguments["old"], arguments["new"]).encode())
        case "view":
            return (await place.read(arguments["path"], 1 << 20)).decode()
        case _:
            assert name == "submit"
    return ""


async def _bash(place: Place, command: str) -> tuple[int | None, str]:
    done = await place.run(Command(argv=("bash", "-c", command)))
    return done.exit_code, (done.stdout + done.stderr).decode(errors="replace")


async def _judge(place: Place, box: Box, task: TerminalTask) -> float:
    check = task.check
    if isinstance(check, CommandsCheck):
        return float((await _bash(place, check.script))[0] == 0)
    tree = (await collect(place, ["**/*"])).files
    if isinstance(check, EndStateCheck):
        return end_state.judge(tree, check.expected, is_all_or_nothing=True).score
    suite = code_tests.TestSuite(
        tests=check.tests, ids=(*check.required, *check.kept), modules=check.modules, roots=check.roots,
        trust=check.trust, framework=check.framework, is_all_or_nothing=True, limits=SUITE_LIMITS, test_wall_s=60.0,
    )  # fmt: skip
    files = {name: data for name, data in tree.items() if name not in check.tests}
    verdict = await code_tests.verify(files, suite, box)
    assert verdict.score is not None, verdict
    return verdict.score
