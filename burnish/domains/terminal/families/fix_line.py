"""One line of a function is wrong: shown (level 0), told by what a call gives (1), or found from a failing test (2)."""

from random import Random

from burnish.domains.terminal.oracle import Calls, replace, shell, submit, view
from burnish.domains.terminal.planted import (
    MODULES,
    TRAINED,
    Module,
    Planted,
    call_text,
    check_of,
    fault_of,
    files_of,
    plant,
    repairs,
)
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (0, 1, 2)
ONE_LINE = tuple(family for family in TRAINED if "\n" not in family.body)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a function with a fault in one line, and say as much of it as the level does."""
    planted = plant(rng, ONE_LINE)
    module = Module(name=rng.choice(MODULES), parts=(planted,))
    return TerminalTask(
        family="fix_line",
        level=level,
        instruction=instruction(rng, module, planted, level),
        files=files_of([module], shows_tests=True),
        protected=(module.test_file,),
        check=check_of([module]),
        fault=fault_of([module]),
        oracle=oracle(module, level),
        max_steps=8,
        source="fix_line",
        tags=(planted.kind,),
    )


def instruction(rng: Random, module: Module, planted: Planted, level: int) -> str:
    """What is said of the fault."""
    problem, hunk, path = planted.problem, repairs(module)[0], f"{module.name}.py"
    purpose = f"`{problem.signature}` {problem.ask}."
    number = next(one for one in planted.shown if one in planted.failing)
    if level == 0:
        line = hunk.old.strip("\n").splitlines()[-1].strip()
        told = rng.choice(
            (f"Line {hunk.last_line} of {path} is wrong:", f"In {path}, line {hunk.last_line} has a bug:")
        )
        return f"{told}\n`{line}`\n{purpose} Fix the line."
    if level == 1:
        seen = f"`{call_text(problem, number)}` in {path} {planted.gives(number)}, but should return"
        return f"{seen} {problem.expected[number]!r}. {purpose} {rng.choice(('Fix it.', 'Repair the function.'))}"
    told = rng.choice((f"{module.test_file} fails.", f"The tests in {module.test_file} do not pass."))
    return f"{told} {purpose} Fix {path}."


def oracle(module: Module, level: int) -> Calls:
    """Look if the line is not known, replace it, submit."""
    path = f"{module.name}.py"
    looks = {0: (), 1: (view(path),), 2: (shell(f"cat {path}; python3 -m pytest -q --tb=no {module.test_file}"),)}
    return (*looks[level], *(replace(path, hunk.old, hunk.new) for hunk in repairs(module)), submit())
