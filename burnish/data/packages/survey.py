"""A package's suite as it is: which tests pass every time, and which of them run each line.

Decisions: a baseline is the gate. The suite runs once with pytest under coverage, one context a test
(https://coverage.readthedocs.io, measurement contexts), and once with the runner that verdicts use; only tests that
pass in both count, so that what depends on order, locale or another runner is left out. A package of which fewer than
half of the tests pass, or fewer than 20, is refused. Of the tests that run a line, at most `MOST_TESTS` are kept, drawn
by the line's number, and how many there are. Surveys are kept by `key`, the hash of all that they depend on.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pydantic import ValidationError

from burnish.core.config import Strict
from burnish.core.errors import ConfigError, SandboxError
from burnish.core.types import Json, sha256_json
from burnish.data.packages.catalogue import TESTS, Tree
from burnish.sandbox import Box, Job, ResourceLimits

PROGRAM: Final = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
LIMITS: Final = ResourceLimits(
    wall_s=900.0, cpu_s=600.0, memory_mb=2048, disk_mb=128, num_files=8192, num_processes=64, output_bytes=64 << 20
)
PRELOAD: Final = (
    "json", "ast", "unittest", "pytest", "_pytest.assertion.rewrite", "_pytest.python", "_pytest.fixtures",
    "_pytest.terminal", "_pytest.capture", "_pytest.logging", "_pytest.skipping", "_pytest.tmpdir",
)  # fmt: skip
"""What a suite's run imports anyway, done once for all of them."""
MOST_TESTS: Final = 120
FEWEST_TESTS: Final = 20
FEWEST_SHARE: Final = 0.5


class Refused(ConfigError):
    """A package of which no tasks can be made here."""


class RunTests(Protocol):
    """Runs tests of a package as a verdict would, on a tree of its files."""

    async def __call__(
        self, files: Mapping[str, bytes], ids: Sequence[str], wall_s: float
    ) -> Mapping[str, bool] | None:
        """Which of the tests passed; None if that cannot be said (they hang, or use too much)."""
        ...


class Line(Strict):
    """The tests that run a line: how many, and the numbers of some."""

    file: str
    line: int
    num: int
    tests: list[int]


class Survey(Strict):
    """What a suite is: its stable tests, and what they run."""

    ids: list[str]
    seconds: list[float]
    """How long each took, under coverage."""
    num_unstable: int
    lines: list[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Look up the tests that run a line."""

    ids: tuple[str, ...]
    seconds: Mapping[str, float]
    lines: Mapping[tuple[str, int], tuple[int, tuple[str, ...]]]

    def of(self, file: str, line: int) -> tuple[int, tuple[str, ...]]:
        """How many stable tests run it, and some of them."""
        return self.lines.get((file, line), (0, ()))


def coverage(survey: Survey) -> Coverage:
    """Make a survey's lines quick to look up."""
    found = {
        (each.file, each.line): (each.num, tuple(survey.ids[number] for number in each.tests)) for each in survey.lines
    }
    seconds = dict(zip(survey.ids, survey.seconds, strict=True))
    return Coverage(ids=tuple(survey.ids), seconds=seconds, lines=found)


def key(tree: Tree) -> str:
    """The hash of what a survey depends on: the files, our program, and what runs it."""
    files = {name: hashlib.sha256(content).hexdigest() for name, content in tree.files.items()}
    pytest = importlib.metadata.version("pytest") if importlib.util.find_spec("pytest") else ""
    return sha256_json([files, tree.package.modules, PROGRAM, list(sys.version_info[:3]), pytest])


async def survey(tree: Tree, box: Box, run_tests: RunTests, kept: Path) -> Survey:
    """Survey a package, or read what an earlier survey of the same `key` found."""
    if kept.is_file():
        try:
            return Survey.model_validate_json(kept.read_bytes())
        except ValidationError:
            kept.unlink()
    if missing := [name for name in ("coverage", "pytest") if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"tasks from packages need {missing[0]}: pip install 'burnish[packages]'")
    answer = await _inside(tree, box)
    outcomes, seconds = _mapping(answer["outcomes"]), _mapping(answer["seconds"])
    passed = [name for name, outcome in outcomes.items() if outcome == "passed"]
    again = (await run_tests(tree.files, passed, LIMITS.wall_s) if passed else None) or {}
    stable = [name for name in passed if again.get(name)]
    if len(stable) < max(FEWEST_TESTS, FEWEST_SHARE * len(outcomes)):
        raise Refused(
            f"package {tree.package.name!r}: {len(stable)} of {len(outcomes)} tests pass twice on the unchanged code; "
            f"expected at least {FEWEST_TESTS} and half: leave it out of the catalogue"
        )
    found = Survey(
        ids=stable,
        seconds=[float(str(seconds[name])) for name in stable],
        num_unstable=len(outcomes) - len(stable),
        lines=_lines(answer["lines"], list(outcomes), stable),
    )
    kept.parent.mkdir(parents=True, exist_ok=True)
    beside = kept.with_suffix(".unfinished")
    beside.write_text(found.model_dump_json(), encoding="utf-8")
    beside.rename(kept)
    return found


async def _inside(tree: Tree, box: Box) -> Mapping[str, Json]:
    """Run the program of `inside.py` on a tree; `SandboxError` if it gives no answer."""
    order = {"modules": tree.package.modules, "paths": [TESTS], "most": MOST_TESTS}
    job = Job(source=PROGRAM, files=tree.files, stdin=json.dumps(order).encode(), preload=PRELOAD, limits=LIMITS)
    outcome = await box.run(job)
    try:
        return _mapping(json.loads(outcome.answer))
    except ValueError:
        last = outcome.stderr[-600:].decode(errors="replace")
        raise SandboxError(
            f"package {tree.package.name!r}: its suite gave no answer ({outcome.ending}, {outcome.exit_code}): {last}"
        ) from None


def _lines(rows: Json, ids: Sequence[str], stable: Sequence[str]) -> list[Line]:
    numbers = {name: number for number, name in enumerate(stable)}
    found: list[Line] = []
    assert isinstance(rows, list)
    for row in rows:
        match row:
            case [str(file), int(line), int(num), list(tests)]:
                kept = [numbers[ids[test]] for test in tests if isinstance(test, int) and ids[test] in numbers]
                if kept:
                    most = max(len(kept), num * len(kept) // len(tests))
                    found.append(Line(file=file, line=line, num=most, tests=kept))
            case _:
                raise AssertionError(f"a line of another form: {row!r}")
    return found


def _mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ValueError("no mapping")
    return value
