"""A program that prints a wrong report, no test in sight: a fault in one of two modules (level 4), or in each (5)."""

from collections.abc import Sequence
from random import Random

from burnish.domains.code_families import Problem
from burnish.domains.terminal.families.fix_module import draw_module, mend
from burnish.domains.terminal.planted import (
    MODULES,
    TRAINED,
    Module,
    Planted,
    call_text,
    check_of,
    fault_of,
    files_of,
    problem_of,
)
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (4, 5)
LABELS = ("alpha", "beta", "gamma", "delta", "kappa", "sigma")
REPORT = "python3 report.py"


def make(rng: Random, level: int) -> TerminalTask:
    """Draw two modules, and a program that prints what their functions give."""
    names = rng.sample(MODULES, 2)
    modules = [draw_module(rng, name, 3, int(level == 5 or number == 0), TRAINED) for number, name in enumerate(names)]
    rng.shuffle(modules)
    lines = [(module, part) for module in modules for part in module.parts]
    rng.shuffle(lines)
    wrong = [f"`{label}` should be {_expected(part)}" for label, (_, part) in zip(LABELS, lines, strict=True)
             if isinstance(part, Planted)]  # fmt: skip
    return TerminalTask(
        family="fix_symptom",
        level=level,
        instruction=f"`{REPORT}`, which uses {' and '.join(names)}, prints a wrong value: {', '.join(wrong)}. "
        "Find out why and fix the code. report.py itself is right.",
        files={**files_of(modules, shows_tests=False), "report.py": _report(modules, lines)},
        protected=("report.py",),
        check=check_of(modules),
        fault=fault_of(modules, shows_tests=False),
        oracle=mend(modules, f"{REPORT}; cat report.py", REPORT),
        max_steps=16,
        source="fix_symptom",
        tags=tuple(planted.kind for module in modules for planted in module.planted),
    )


def _number(part: Problem | Planted) -> int:
    """The call that the report shows: one that fails, if there is one."""
    return part.failing[0] if isinstance(part, Planted) else 0


def _expected(part: Planted) -> str:
    return repr(part.problem.expected[_number(part)])


def _report(modules: Sequence[Module], lines: Sequence[tuple[Module, Problem | Planted]]) -> str:
    head = [f"import {module.name}" for module in sorted(modules, key=lambda module: module.name)]
    body: list[str] = []
    for label, (module, part) in zip(LABELS, lines, strict=True):
        problem = problem_of(part)
        body.append(f"    ({label!r}, lambda: {module.name}.{call_text(problem, _number(part))}),")
    loop = [
        "for label, compute in LINES:",
        "    try:",
        '        print(f"{label} = {compute()!r}")',
        "    except Exception as error:",
        '        print(f"{label} = error: {error!r}")',
    ]
    return "\n".join([*head, "", "LINES = [", *body, "]", "", *loop, ""])
