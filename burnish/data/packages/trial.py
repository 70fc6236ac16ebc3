"""One candidate tried: its tests run on the changed code, and what comes of them decides whether it makes a task.

Kept is what turns at least one test from pass to fail while most of the suite still passes. Not kept: what no test
sees (equivalent, for all we know), what breaks more than a fifth of the suite, as far as the tests tell that run the
faulty lines, and what hangs. Some tests that do not run those lines are tried too, so that every task has tests that
must go on. Outcomes are kept by the hash of the diff, one line each, so that a build that was killed tries nothing
twice; a line that the kill cut short is dropped.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final, Literal

from pydantic import ValidationError

from burnish.core.config import Strict
from burnish.core.errors import SandboxError
from burnish.core.seeds import derive
from burnish.data.mutations.edits import Edit
from burnish.data.packages.catalogue import Tree
from burnish.data.packages.hidden import function_of, hide
from burnish.data.packages.sites import Candidate, Site
from burnish.data.packages.survey import LIMITS, MOST_TESTS, Coverage, RunTests, inside
from burnish.sandbox import Box

Status = Literal["kept", "equivalent", "broken", "hangs", "conflict"]
LARGEST_SHARE: Final = 0.2
TRIAL_WALL_S: Final = 300.0
"""Long enough for a busy host; what loops is ended by its processor time."""
NUM_SAID: Final = 3
MOST_OTHERS: Final = 20
SAID_LIMITS: Final = replace(LIMITS, wall_s=300.0, cpu_s=20.0)


class PlantedFault(Strict):
    """One fault of a trial."""

    file: str
    kind: str
    function: str
    line: int
    edits: tuple[Edit, ...]


class Trial(Strict):
    """What came of a candidate."""

    key: str
    status: Status
    faults: tuple[PlantedFault, ...]
    failing: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """The functions among the failing tests that the agent does not see."""
    said: dict[str, str] = {}
    """What some of the failing tests that it sees print."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The failing tests that the agent sees."""
        return tuple(name for name in self.failing if function_of(name) not in self.hidden)


async def attempt(tree: Tree, coverage: Coverage, candidate: Candidate, box: Box, run_tests: RunTests) -> Trial:
    """Try a candidate."""
    trial = Trial(key=candidate.key, status="conflict", faults=tuple(map(_fault, candidate.sites)))
    changed = candidate.changed(tree.sources)
    if changed is None:
        return trial
    files = {**tree.files, **{name: text.encode() for name, text in changed.items()}}
    running = _tests(candidate.sites)
    ids = (*running, *_others(coverage, running, trial.key))
    passed = await run_tests(files, ids, TRIAL_WALL_S)
    if passed is None:
        return trial.model_copy(update={"status": "hangs"})
    failing = tuple(name for name in ids if not passed[name])
    passing = tuple(name for name in ids if passed[name])
    num_failing = sum(not passed[name] for name in running)
    status = _status(candidate.sites, num_failing, len(running), len(coverage.ids))
    trial = trial.model_copy(update={"status": status, "failing": failing, "passing": passing})
    if status != "kept":
        return trial.model_copy(update={"passing": ()})
    hidden = hide(failing, Random(derive(0, "hidden tests of", trial.key)))
    trial = trial.model_copy(update={"hidden": tuple(sorted(hidden))})
    shown = trial.shown[:NUM_SAID]
    paths = sorted({name.partition("::")[0] for name in shown})
    try:
        said = (await inside(tree, box, files, ids=shown, paths=paths, limits=SAID_LIMITS))["said"]
    except SandboxError:  # no answer in the time that three tests may take: a test that never ends says nothing
        return trial.model_copy(update={"status": "hangs", "passing": ()})
    assert isinstance(said, dict)
    return trial.model_copy(update={"said": {name: str(text) for name, text in said.items()}})


class Trials:
    """The outcomes of a package's candidates, in a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = dict(_read(path))

    def get(self, key: str) -> Trial | None:
        """What came of a candidate, if it was tried."""
        return self._known.get(key)

    def add(self, trial: Trial) -> None:
        """Keep an outcome; it is on the disk before the next is tried."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "ab") as file:
            file.write(trial.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._known[trial.key] = trial


def _read(path: Path) -> list[tuple[str, Trial]]:
    """The outcomes of a file; what was cut short at its end is cut off it."""
    if not path.is_file():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        path.write_bytes(whole)
    trials: list[tuple[str, Trial]] = []
    for line in whole.splitlines():
        try:
            trial = Trial.model_validate_json(line)
        except ValidationError:
            continue  # of another form of this file: tried again
        trials.append((trial.key, trial))
    return trials


def _tests(some: Sequence[Site]) -> tuple[str, ...]:
    """Tests that run the faults, as many of each as there is room for."""
    share = MOST_TESTS // len(some)
    return tuple(dict.fromkeys(name for site in some for name in site.tests[:share]))


def _others(coverage: Coverage, running: Sequence[str], key: str) -> list[str]:
    """Some tests that do not run the faults and must go on passing."""
    others = sorted(set(coverage.ids) - set(running))
    return Random(derive(0, "other tests of", key)).sample(others, min(MOST_OTHERS, len(others)))


def _status(some: Sequence[Site], num_failing: int, num_tried: int, num_tests: int) -> Status:
    """What the tests that run the faults say of them."""
    if not num_failing:
        return "equivalent"
    num_running = min(num_tests, sum(site.num_tests for site in some))
    return "broken" if num_failing / num_tried * num_running / num_tests > LARGEST_SHARE else "kept"


def _fault(site: Site) -> PlantedFault:
    mutation = site.mutation
    return PlantedFault(
        file=site.file, kind=mutation.kind, function=mutation.function, line=mutation.line, edits=mutation.edits
    )
