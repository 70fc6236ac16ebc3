"""What comes of a candidate, and the file that keeps it.

A candidate is screened with many others (`screen`); one that tests see is confirmed alone, by the runner of verdicts
in a fresh box on the files as its task has them, and what that run says counts: `failing` and `passing` are its. Kept
is what turns at least one test from pass to fail while most of the suite still passes. Not kept: what no test sees
(equivalent, for all we know), what breaks more than a fifth of the suite, what hangs, and what shows at a glance (every
failing test says that a name is unbound). Some tests that do not run the faulty lines are confirmed too, so that every
task has tests that must go on. Outcomes are kept by the hash of the diff, one line each, so that a build that was
killed tries nothing twice; a line that the kill cut short is dropped.
"""

import os
from pathlib import Path
from random import Random
from typing import Final, Literal

from pydantic import ValidationError

from burnish.core.config import Strict
from burnish.core.seeds import derive
from burnish.data.mutations.edits import Edit
from burnish.data.packages.catalogue import Tree
from burnish.data.packages.hidden import function_of, hide
from burnish.data.packages.screen import Screened, tests_of
from burnish.data.packages.sites import Candidate, Site
from burnish.data.packages.survey import Coverage, RunTests

Status = Literal["kept", "equivalent", "trivial", "broken", "hangs", "conflict"]
CONFIRM_WALL_S: Final = 300.0
"""Long enough for a busy host; what loops is ended by its processor time."""
NUM_SAID: Final = 3
MOST_NEAR: Final = 10
MOST_FAR: Final = 5
"""Tests that pass and must go on passing: those that run the fault, and those that do not."""
MOST_FILES: Final = 3
"""Files of tests of a task, unless more of them have failing tests."""


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
    was_screened_alike: bool = True
    """Whether the confirming run said of every test what the screen said."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The failing tests that the agent sees."""
        return tuple(name for name in self.failing if function_of(name) not in self.hidden)


def screened(candidate: Candidate, status: Status) -> Trial:
    """What came of a candidate that the screen let not through."""
    return Trial(key=candidate.key, status=status, faults=tuple(map(_fault, candidate.sites)))


async def confirm(tree: Tree, coverage: Coverage, candidate: Candidate, found: Screened, run_tests: RunTests) -> Trial:
    """Run a candidate that the screen let through as a verdict would."""
    changed = candidate.changed(tree.sources)
    if changed is None:
        return screened(candidate, "conflict")
    files = {**tree.files, **{name: text.encode() for name, text in changed.items()}}
    expected = _expected(coverage, candidate, found)
    passed = await run_tests(files, list(expected), CONFIRM_WALL_S)
    if passed is None:
        return screened(candidate, "hangs")
    failing = tuple(name for name in expected if not passed[name])
    trial = screened(candidate, "kept" if failing else "equivalent")
    trial = trial.model_copy(update={"was_screened_alike": expected == dict(passed)})
    if not failing:
        return trial
    hidden = hide(failing, Random(derive(0, "hidden tests of", trial.key)))
    passing = tuple(name for name in expected if passed[name])
    trial = trial.model_copy(update={"failing": failing, "passing": passing, "hidden": tuple(sorted(hidden))})
    said = [(name, found.failing[name]) for name in trial.shown if found.failing.get(name)]
    return trial.model_copy(update={"said": dict(said[:NUM_SAID])})


class Trials:
    """The outcomes of a package's candidates, in a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = dict(_read(path))

    def get(self, key: str) -> Trial | None:
        """What came of a candidate, if it was tried."""
        return self._known.get(key)

    def add(self, trial: Trial) -> None:
        """Keep an outcome, on the disk before more are tried."""
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


def _expected(coverage: Coverage, candidate: Candidate, found: Screened) -> dict[str, bool]:
    """The tests of the confirming run, and what the screen says of each; few files, since each costs a verdict time."""
    rng = Random(derive(0, "passing tests of", candidate.key))
    running = dict.fromkeys(tests_of(candidate))
    files = dict.fromkeys(map(_file, found.failing))
    more = [name for name in dict.fromkeys(map(_file, running)) if name not in files]
    rng.shuffle(more)
    files |= dict.fromkeys(more[: max(0, MOST_FILES - len(files))])
    near = [name for name in running if name not in found.failing and _file(name) in files]
    far = [name for name in coverage.ids if name not in running and _file(name) in files]
    if not near and not far:
        far = [name for name in coverage.ids if name not in running]
    passing = rng.sample(near, min(MOST_NEAR, len(near))) + rng.sample(far, min(MOST_FAR, len(far)))
    return dict.fromkeys(found.failing, False) | dict.fromkeys(passing, True)


def _file(test_id: str) -> str:
    return test_id.partition("::")[0]


def _fault(site: Site) -> PlantedFault:
    mutation = site.mutation
    return PlantedFault(
        file=site.file, kind=mutation.kind, function=mutation.function, line=mutation.line, edits=mutation.edits
    )
