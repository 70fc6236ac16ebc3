"""A fault in one of several functions, found from a failing test: in one module (level 3), in one of two (4)."""

from collections.abc import Sequence
from random import Random

from burnish.domains.code_families import Family, Problem
from burnish.domains.terminal.oracle import Calls, replace, shell, submit, view
from burnish.domains.terminal.planted import (
    MODULES,
    TRAINED,
    Module,
    check_of,
    fault_of,
    files_of,
    plain,
    plant,
    repairs,
)
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (3, 4)
TEST = "python3 -m pytest -q --tb=short"


def make(rng: Random, level: int) -> TerminalTask:
    """Draw modules, one fault in one of them."""
    return task(rng, level, "fix_module", TRAINED)


def task(rng: Random, level: int, family: str, families: Sequence[Family]) -> TerminalTask:
    """Draw a task of this form from a table of functions."""
    names = rng.sample(MODULES, level - 2)
    modules = [draw_module(rng, name, 4, int(number == 0), families) for number, name in enumerate(names)]
    rng.shuffle(modules)
    asked = rng.choice(("{0} fails. Find the bug and fix it.", "{0} does not pass. Repair the code."))
    return TerminalTask(
        family=family,
        level=level,
        instruction=f"{asked.format(shown_failing(modules))} Do not change the tests. Run them with `{TEST}`.",
        files=files_of(modules, shows_tests=True),
        protected=("test_*.py",),
        check=check_of(modules),
        fault=fault_of(modules),
        oracle=mend(modules, TEST),
        max_steps=12,
        source=family,
        tags=tuple(planted.kind for module in modules for planted in module.planted),
    )


def shown_failing(modules: Sequence[Module]) -> str:
    """The first visible test that fails."""
    return next(one for module in modules for one in module.ids(fail=True, is_hidden=False))


def draw_module(rng: Random, name: str, num: int, num_faults: int, families: Sequence[Family]) -> Module:
    """Draw a module of `num` functions, so many of them with a fault, in any order."""
    parts = [plant(rng, families) for _ in range(num_faults)]
    while len({part.problem.function for part in parts}) < num_faults:
        parts = [plant(rng, families) for _ in range(num_faults)]
    taken = [part.problem.function for part in parts]
    others: list[Problem] = []
    for _ in range(num - num_faults):
        others.append(plain(rng, taken, families))
        taken.append(others[-1].function)
    mixed = [*parts, *others]
    rng.shuffle(mixed)
    return Module(name=name, parts=tuple(mixed))


def mend(modules: Sequence[Module], reproduce: str, test: str = "") -> Calls:
    """Reproduce, locate, edit, test, submit."""
    calls = [shell(reproduce)]
    for module in modules:
        path = f"{module.name}.py"
        for planted in module.planted:
            calls.append(shell(f"grep -n 'def {planted.problem.function}' *.py"))
        calls += [view(path)] if module.planted else []
        calls += [replace(path, hunk.old, hunk.new) for hunk in repairs(module)]
    return (*calls, shell(test or reproduce), submit())
