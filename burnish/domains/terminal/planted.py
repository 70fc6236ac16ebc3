"""Small modules of Python with a fault planted in them, and the tests that show it.

The functions are those of the domain `code` (`code_families*`), the faults those of `data/mutations`. What training
draws uses the seen families alone, so that a terminal task teaches no function that the domain `code` holds out.

Decisions: a mutant runs here, in process: it is our own text, it has no `while` and no recursion, and its inputs are
short. A fault counts if it changes what at least two of the calls return. Half of the calls that show it stay hidden.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from burnish.core.types import Json
from burnish.data.mutations.edits import apply
from burnish.data.mutations.find import mutations
from burnish.data.mutations.repair import Hunk, hunks
from burnish.domains.code_families import Family, Problem, draw
from burnish.domains.code_families_seen import FAMILIES as SEEN
from burnish.domains.code_families_seen_numbers import FAMILIES as SEEN_NUMBERS
from burnish.domains.code_families_seen_texts import FAMILIES as SEEN_TEXTS
from burnish.domains.terminal.spec import TestsCheck
from burnish.rewards.process import Fault, Place

TRAINED: Final = SEEN + SEEN_NUMBERS + SEEN_TEXTS
MODULES: Final = tuple(
    "ledger tally orchard kitchen harbour garden workshop library_desk bakery depot museum ferry studio mill forge "
    "cellar loft meadow pantry quarry stable tavern vault wharf greenhouse lighthouse observatory".split()
)
NUM_SHOWN: Final = 3
MOST_DRAWS: Final = 400
RAISED: Final = "raised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A function with a fault: what it reads now, what it should, and which calls show it."""

    problem: Problem
    faulty: str
    kind: str
    shown: tuple[int, ...]
    """Numbers of the calls that the agent may see as tests: some fail."""
    failing: tuple[int, ...]
    """Numbers of all calls that fail."""

    @property
    def hunk(self) -> Hunk:
        """The one edit that mends the function."""
        (hunk,) = hunks(self.faulty, self.problem.solution)
        return hunk

    def gives(self, number: int) -> str:
        """What the faulty function does with a call, in words."""
        said = value_of(self.faulty, self.problem.function, _list(self.problem.calls[number]))
        return f"raises {said[1]}" if said[0] == RAISED else f"returns {said[1]!r}"


def plant(rng: Random, families: Sequence[Family] = TRAINED, kinds: Sequence[str] = ()) -> Planted:
    """Draw a function and a fault in it."""
    for _ in range(MOST_DRAWS):
        problem = draw(rng.choice(families), rng)
        found = mutations(problem.solution, kinds) if kinds else mutations(problem.solution)
        rng.shuffle(found)
        for mutation in found[:4]:
            faulty = apply(problem.solution, mutation.edits)
            if len(hunks(faulty, problem.solution)) != 1:
                continue
            failing = _failing(problem, faulty)
            if len(failing) >= 2:
                shown = _shown(rng, failing, len(problem.calls))
                return Planted(problem=problem, faulty=faulty, kind=mutation.kind, shown=shown, failing=failing)
    raise AssertionError("no fault that two calls show in any of the functions")


def plain(rng: Random, taken: Sequence[str], families: Sequence[Family] = TRAINED) -> Problem:
    """Draw a function of another name than those taken, which has no fault."""
    drawn = (draw(rng.choice(families), rng) for _ in range(MOST_DRAWS))
    return next(problem for problem in drawn if problem.function not in taken)


def value_of(source: str, function: str, arguments: Sequence[Json]) -> tuple[str, Json]:
    """What a call comes to: `("value", it)`, or `("raised", the exception's name)`."""
    namespace: dict[str, object] = {}
    exec(source, namespace)
    target = namespace[function]
    assert callable(target)
    try:
        return "value", json.loads(json.dumps(target(*copy.deepcopy(list(arguments)))))
    except Exception as error:  # noqa: BLE001 - a fault that was planted may raise anything
        return RAISED, type(error).__name__


def module_text(functions: Sequence[str]) -> str:
    """A module of functions, as a formatter would lay it out."""
    return "\n\n\n".join(functions) + "\n"


def tests_text(module: str, problems: Sequence[tuple[Problem, Sequence[int]]]) -> str:
    """Tests of some calls of some functions."""
    names = ", ".join(problem.function for problem, _ in problems)
    lines = [f"from {module} import {names}", ""]
    for problem, numbers in problems:
        for number in numbers:
            call = call_text(problem, number)
            test = f"def {test_name(problem, number)}():\n    assert {call} == {problem.expected[number]!r}\n"
            lines += ["", test]
    return "\n".join(lines)


def call_text(problem: Problem, number: int) -> str:
    """A call as code."""
    arguments = problem.calls[number]
    assert isinstance(arguments, list)
    return f"{problem.function}({', '.join(map(repr, arguments))})"


def test_name(problem: Problem, number: int) -> str:
    """The name of the test of one call."""
    return f"test_{problem.function}_{number + 1}"


test_name.__test__ = False  # type: ignore[attr-defined] # no test, whatever pytest thinks of its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module of the task: its functions, those with a fault among them, in the order of the file."""

    name: str
    parts: Sequence[Problem | Planted]

    @property
    def faulty(self) -> str:
        """The text that the agent finds."""
        return module_text([part.faulty if isinstance(part, Planted) else part.solution for part in self.parts])

    @property
    def right(self) -> str:
        """The text without faults."""
        return module_text([problem_of(part).solution for part in self.parts])

    @property
    def planted(self) -> list[Planted]:
        """The functions with a fault."""
        return [part for part in self.parts if isinstance(part, Planted)]

    @property
    def test_file(self) -> str:
        """The name of its tests."""
        return f"test_{self.name}.py"

    def tests(self, *, is_hidden: bool) -> str:
        """Its tests: those that the agent sees, or all."""
        return tests_text(self.name, [(problem_of(part), _numbers(part, is_hidden=is_hidden)) for part in self.parts])

    def ids(self, *, fail: bool, is_hidden: bool = True) -> tuple[str, ...]:
        """The ids of the tests that fail at the start, or of those that pass."""
        return tuple(
            f"{self.test_file}::{test_name(problem_of(part), number)}"
            for part in self.parts
            for number in _numbers(part, is_hidden=is_hidden)
            if (isinstance(part, Planted) and number in part.failing) == fail
        )


def problem_of(part: Problem | Planted) -> Problem:
    """The function of a part, right."""
    return part.problem if isinstance(part, Planted) else part


def check_of(modules: Sequence[Module]) -> TestsCheck:
    """All tests of the modules: what fails must pass, what passes must go on."""
    return TestsCheck(
        required=sum((module.ids(fail=True) for module in modules), ()),
        kept=sum((module.ids(fail=False) for module in modules), ()),
        tests={module.test_file: module.tests(is_hidden=True) for module in modules},
        modules=tuple(module.name for module in modules),
    )


def fault_of(modules: Sequence[Module], *, shows_tests: bool = True) -> Fault:
    """Where the faults are in the files that the agent finds, and which visible tests show them."""
    places: list[Place] = []
    for module in modules:
        for planted in module.planted:
            first = module.faulty[: module.faulty.index(planted.faulty)].count("\n") + 1
            last = first + planted.faulty.count("\n")
            places.append(Place(path=f"{module.name}.py", first_line=first, last_line=last))
    shown = [module.ids(fail=True, is_hidden=False) for module in modules] if shows_tests else []
    return Fault(
        places=tuple(places),
        failing=frozenset(sum(shown, ())),
        num_lines=sum(planted.hunk.num_lines for module in modules for planted in module.planted),
    )


def files_of(modules: Sequence[Module], *, shows_tests: bool) -> Mapping[str, str]:
    """What the agent finds."""
    files = {f"{module.name}.py": module.faulty for module in modules}
    return files | ({module.test_file: module.tests(is_hidden=False) for module in modules} if shows_tests else {})


def repairs(module: Module) -> list[Hunk]:
    """The edits that mend a module, from its end to its start."""
    return hunks(module.faulty, module.right)[::-1]


def _numbers(part: Problem | Planted, *, is_hidden: bool) -> Sequence[int]:
    if is_hidden:
        return range(len(problem_of(part).calls))
    return part.shown if isinstance(part, Planted) else range(2)


def _failing(problem: Problem, faulty: str) -> tuple[int, ...]:
    return tuple(
        number
        for number, (arguments, expected) in enumerate(zip(problem.calls, problem.expected, strict=True))
        if value_of(faulty, problem.function, _list(arguments)) != ("value", expected)
    )


def _shown(rng: Random, failing: Sequence[int], num: int) -> tuple[int, ...]:
    """Half of what fails, at most two, and calls that pass besides."""
    shown_failing = rng.sample(failing, min(2, max(1, len(failing) // 2)))
    passing = [number for number in range(num) if number not in failing]
    return tuple(sorted([*shown_failing, *rng.sample(passing, min(NUM_SHOWN - len(shown_failing), len(passing)))]))


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value
